/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of products of bytes, with what the core has. Internal.
 */
#ifndef CORTADO_DOT_H
#define CORTADO_DOT_H

#include "cortado_math.h"

#if defined(__ARM_FEATURE_MVE)

static inline int32_t cortado_dot(const int8_t *a, const int8_t *b, int32_t n)
{
    register int32_t sum __asm__("r0") = 0; /* VMLADAVA sums into an even register */
    __asm__ volatile("wlstp.8 lr, %3, 2f\n"
                     "1: vldrb.8 q0, [%1], #16\n"
                     "vldrb.8 q1, [%2], #16\n"
                     "vmladava.s8 %0, q0, q1\n"
                     "letp lr, 1b\n"
                     "2:"
                     : "+r"(sum), "+r"(a), "+r"(b)
                     : "r"(n)
                     : "lr", "q0", "q1", "cc", "memory");
    return sum;
}

static inline int32_t cortado_sum(const int8_t *a, int32_t n)
{
    register int32_t sum __asm__("r0") = 0;
    __asm__ volatile("wlstp.8 lr, %2, 2f\n"
                     "1: vldrb.8 q0, [%1], #16\n"
                     "vaddva.s8 %0, q0\n"
                     "letp lr, 1b\n"
                     "2:"
                     : "+r"(sum), "+r"(a)
                     : "r"(n)
                     : "lr", "q0", "cc", "memory");
    return sum;
}

/* sum((a + offset) * b). */
static inline int32_t cortado_dot_offset(const int8_t *a, int32_t offset, const int8_t *b, int32_t n)
{
    return cortado_dot(a, b, n) + offset * cortado_sum(b, n);
}

#elif defined(__ARM_FEATURE_DSP)

static inline int32_t cortado_even(int32_t four)
{
    int32_t v;
    __asm__("sxtb16 %0, %1" : "=r"(v) : "r"(four));
    return v;
}

static inline int32_t cortado_odd(int32_t four)
{
    int32_t v;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(v) : "r"(four));
    return v;
}

static inline int32_t cortado_smlad(int32_t a, int32_t b, int32_t sum)
{
    int32_t v;
    __asm__("smlad %0, %1, %2, %3" : "=r"(v) : "r"(a), "r"(b), "r"(sum));
    return v;
}

/* Pack the lower halves of two words, and the upper halves. */
static inline int32_t cortado_low_halves(int32_t first, int32_t last)
{
    int32_t v;
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(v) : "r"(first), "r"(last));
    return v;
}

static inline int32_t cortado_high_halves(int32_t first, int32_t last)
{
    int32_t v;
    __asm__("pkhtb %0, %2, %1, asr #16" : "=r"(v) : "r"(first), "r"(last));
    return v;
}

static inline int32_t cortado_dot(const int8_t *a, const int8_t *b, int32_t n)
{
    int32_t sum = 0;
    for (; n >= 4; n -= 4, a += 4, b += 4) {
        const int32_t x = cortado_load4(a), w = cortado_load4(b);
        sum = cortado_smlad(cortado_even(x), cortado_even(w), sum);
        sum = cortado_smlad(cortado_odd(x), cortado_odd(w), sum);
    }
    for (; n > 0; n--) {
        sum += *a++ * *b++;
    }
    return sum;
}

static inline int32_t cortado_sum(const int8_t *a, int32_t n)
{
    int32_t sum = 0;
    for (; n >= 4; n -= 4, a += 4) {
        const int32_t x = cortado_load4(a);
        sum = cortado_smlad(cortado_even(x), 0x00010001, sum);
        sum = cortado_smlad(cortado_odd(x), 0x00010001, sum);
    }
    for (; n > 0; n--) {
        sum += *a++;
    }
    return sum;
}

/* sum((a + offset) * b); a + offset fits a halfword. */
static inline int32_t cortado_dot_offset(const int8_t *a, int32_t offset, const int8_t *b, int32_t n)
{
    const int32_t both = cortado_low_halves(offset, offset);
    int32_t sum = 0;
    for (; n >= 4; n -= 4, a += 4, b += 4) {
        const int32_t x = cortado_load4(a), w = cortado_load4(b);
        int32_t even, odd;
        __asm__("sxtab16 %0, %1, %2" : "=r"(even) : "r"(both), "r"(x));
        __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(odd) : "r"(both), "r"(x));
        sum = cortado_smlad(even, cortado_even(w), sum);
        sum = cortado_smlad(odd, cortado_odd(w), sum);
    }
    for (; n > 0; n--) {
        sum += (*a++ + offset) * *b++;
    }
    return sum;
}

#else

static inline int32_t cortado_dot(const int8_t *a, const int8_t *b, int32_t n)
{
    int32_t sum = 0;
    for (; n >= 4; n -= 4, a += 4, b += 4) {
        sum += a[0] * b[0];
        sum += a[1] * b[1];
        sum += a[2] * b[2];
        sum += a[3] * b[3];
    }
    for (; n > 0; n--) {
        sum += *a++ * *b++;
    }
    return sum;
}

static inline int32_t cortado_sum(const int8_t *a, int32_t n)
{
    int32_t sum = 0;
    for (; n > 0; n--) {
        sum += *a++;
    }
    return sum;
}

/* sum((a + offset) * b). */
static inline int32_t cortado_dot_offset(const int8_t *a, int32_t offset, const int8_t *b, int32_t n)
{
    int32_t sum = 0;
    for (; n > 0; n--) {
        sum += (*a++ + offset) * *b++;
    }
    return sum;
}

#endif

#endif /* CORTADO_DOT_H */
