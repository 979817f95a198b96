/* SPDX-License-Identifier: Apache-2.0
 *
 * What layers of 16-bit codes and 8-bit weights share: sums, and how they become codes. Internal.
 */
#ifndef CORTADO_WIDE_H
#define CORTADO_WIDE_H

#include "cortado.h"
#include "cortado_dot.h"
#include "cortado_math.h"

/* Products that fit 32 bits together: 512 * 127 * 32768 < 2^31. */
#define CORTADO_WIDE_RUN 512

/* The sums of two output channels over the same codes. */
typedef struct {
    int64_t a, b;
} cortado_wide_pair_t;

/* Sums up to CORTADO_WIDE_RUN products. */
#if defined(__ARM_FEATURE_MVE)

static inline void cortado_wide_few(cortado_wide_pair_t *sum, const int16_t *x, const int8_t *wa, const int8_t *wb,
                                    int32_t n)
{
    register int32_t a __asm__("r0") = 0; /* VMLADAVA sums into even registers */
    register int32_t b __asm__("r2") = 0;
    __asm__ volatile("wlstp.16 lr, %5, 2f\n"
                     "1: vldrh.16 q0, [%2], #16\n"
                     "vldrb.s16 q1, [%3], #8\n"
                     "vmladava.s16 %0, q0, q1\n"
                     "vldrb.s16 q2, [%4], #8\n"
                     "vmladava.s16 %1, q0, q2\n"
                     "letp lr, 1b\n"
                     "2:"
                     : "+r"(a), "+r"(b), "+r"(x), "+l"(wa), "+l"(wb)
                     : "r"(n)
                     : "lr", "q0", "q1", "q2", "cc", "memory");
    sum->a += a;
    sum->b += b;
}

#elif defined(__ARM_FEATURE_DSP)

static inline void cortado_wide_few(cortado_wide_pair_t *sum, const int16_t *x, const int8_t *wa, const int8_t *wb,
                                    int32_t n)
{
    int32_t a = 0, b = 0;
    for (; n >= 4; n -= 4, x += 4, wa += 4, wb += 4) {
        const int32_t first = cortado_load4((const int8_t *)x), last = cortado_load4((const int8_t *)(x + 2));
        const int32_t even = cortado_low_halves(first, last), odd = cortado_high_halves(first, last);
        const int32_t of_a = cortado_load4(wa), of_b = cortado_load4(wb);
        a = cortado_smlad(even, cortado_even(of_a), a);
        a = cortado_smlad(odd, cortado_odd(of_a), a);
        b = cortado_smlad(even, cortado_even(of_b), b);
        b = cortado_smlad(odd, cortado_odd(of_b), b);
    }
    for (; n > 0; n--) {
        const int32_t v = *x++;
        a += v * *wa++;
        b += v * *wb++;
    }
    sum->a += a;
    sum->b += b;
}

#else

static inline void cortado_wide_few(cortado_wide_pair_t *sum, const int16_t *x, const int8_t *wa, const int8_t *wb,
                                    int32_t n)
{
    int32_t a = 0, b = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t v = x[i];
        a += v * wa[i];
        b += v * wb[i];
    }
    sum->a += a;
    sum->b += b;
}

#endif

static inline void cortado_wide_add(cortado_wide_pair_t *sum, const int16_t *x, const int8_t *wa, const int8_t *wb,
                                    int32_t n)
{
    for (; n > CORTADO_WIDE_RUN; n -= CORTADO_WIDE_RUN) {
        cortado_wide_few(sum, x, wa, wb, CORTADO_WIDE_RUN);
        x += CORTADO_WIDE_RUN;
        wa += CORTADO_WIDE_RUN;
        wb += CORTADO_WIDE_RUN;
    }
    cortado_wide_few(sum, x, wa, wb, n);
}

/* A sum that may leave 32 bits is divided by 2^sum_shift first, to nearest, ties up. */
static inline int16_t cortado_wide_code(const cortado_layer_s16_t *L, int64_t sum, int32_t channel)
{
    if (L->sum_shift > 0) {
        sum = (sum + ((int64_t)1 << (L->sum_shift - 1))) >> L->sum_shift;
    }
    const int32_t v = cortado_requant((int32_t)sum, L->multiplier[channel], L->shift[channel]);
    return (int16_t)cortado_clamp(v, L->act_min, L->act_max);
}

static inline int64_t cortado_wide_start(const cortado_layer_s16_t *L, int32_t channel)
{
    return L->bias != NULL ? L->bias[channel] : 0;
}

/* A row of 16-bit codes, which the row loop hands over as bytes. */
static inline const int16_t *cortado_wide_row(const int8_t *row) { return (const int16_t *)(const void *)row; }

#endif /* CORTADO_WIDE_H */
