/* SPDX-License-Identifier: Apache-2.0
 *
 * What layers of 16-bit codes and 8-bit weights share: sums, and how they become codes. Internal.
 */
#ifndef CORTADO_WIDE_H
#define CORTADO_WIDE_H

#include "cortado.h"
#include "cortado_math.h"

/* Products that fit 32 bits together: 512 * 127 * 32768 < 2^31. */
#define CORTADO_WIDE_RUN 512

/* The sums of two output channels over the same codes. */
typedef struct {
    int64_t a, b;
} cortado_wide_pair_t;

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
