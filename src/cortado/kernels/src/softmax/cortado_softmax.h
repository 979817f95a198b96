/* SPDX-License-Identifier: Apache-2.0
 *
 * Fixed-point pieces of softmax. Internal. All values are Q(31 - integer bits) in int32.
 */
#ifndef CORTADO_SOFTMAX_H
#define CORTADO_SOFTMAX_H

#include "cortado_math.h"

/* The sum of exponentials carries 12 integer bits. */
#define CORTADO_SOFTMAX_SUM_BITS 12

/* Sums end here, where every output is -128, the code of 0: half a step of 1/256 is 1/512. What is added at a time fits
 * 32 bits beside it. */
#define CORTADO_SOFTMAX_LARGEST_SUM (1 << 28)
#define CORTADO_SOFTMAX_SUMMED 1023

/* v * 2^n, saturating. */
static inline int32_t cortado_shl_saturate(int32_t v, int32_t n)
{
    const int32_t limit = INT32_MAX >> n;
    return v > limit ? INT32_MAX : v < -limit - 1 ? INT32_MIN : cortado_shl(v, n);
}

/* 1 / (1 + v) for v in [0, 1) as Q31: three Newton steps from 48/17 - 32/17 * d, where d = (1 + v) / 2. */
static inline int32_t cortado_reciprocal(int32_t v)
{
    const int32_t half = (int32_t)(((uint32_t)v + 0x80000000u) >> 1);
    int32_t x = 1515870810 + cortado_mul_high(half, -1010580540);
    for (int i = 0; i < 3; i++) {
        x += cortado_shl_saturate(cortado_mul_high(x, (1 << 29) - cortado_mul_high(half, x)), 2);
    }
    return cortado_shl_saturate(x, 1);
}

/* The common factor and the shift that turn an exponential into an output, from the sum of all exponentials. */
static inline int32_t cortado_softmax_scale(int32_t sum, int32_t *shift)
{
    const int32_t headroom = cortado_leading_zeros((uint32_t)sum);
    *shift = CORTADO_SOFTMAX_SUM_BITS - headroom + 23;
    return cortado_reciprocal((int32_t)(((uint32_t)sum << headroom) - 0x80000000u));
}

/* The last entry of the table of exponentials. Where not all 256 differences count, it is a 0 for those that don't. */
static inline int32_t cortado_softmax_last(int32_t diff_min) { return cortado_min(1 - diff_min, 255); }

/* An exponential's term of the sum. It is never negative, so ties away from zero are ties up. */
static inline int32_t cortado_softmax_term(int32_t exponential)
{
    return (int32_t)(((uint32_t)exponential + (1u << (CORTADO_SOFTMAX_SUM_BITS - 1))) >> CORTADO_SOFTMAX_SUM_BITS);
}

/* An output as an unsigned byte, or 256: scale * exponential is rounded to Q31, then shifted right with rounding.
 * Neither factor is negative, so both roundings are ties up, and one sum makes them: floors of floors. */
static inline int32_t cortado_softmax_byte(int32_t exponential, int32_t scale, int32_t shift)
{
#if CORTADO_SMALL_CORE
    return ((cortado_mul_high(scale, exponential) >> (shift - 1)) + 1) >> 1;
#else
    const int64_t halves = ((int64_t)1 << 30) + ((int64_t)1 << (30 + shift));
    return (int32_t)(((int64_t)scale * exponential + halves) >> 32) >> (shift - 1);
#endif
}

static inline int8_t cortado_softmax_output(int32_t exponential, int32_t scale, int32_t shift)
{
    return (int8_t)(cortado_min(cortado_softmax_byte(exponential, scale, shift), 255) - 128);
}

#endif /* CORTADO_SOFTMAX_H */
