/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic shared by the kernels. Internal: not part of the public interface.
 */
#ifndef CORTADO_MATH_H
#define CORTADO_MATH_H

#include "cortado_isa.h"

#include <stdint.h>
#include <string.h>

/* GCC 12 vectorizes some loops for MVE wrongly (a select by a constant pattern of lanes takes all of one side), so it
 * is not to try: what is worth vector instructions here is written with them. */
#if defined(__ARM_FEATURE_MVE) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-vectorize", "no-tree-slp-vectorize")
#endif

/* A function that is cheaper to call than to inline. */
#if defined(__GNUC__)
#define CORTADO_ONCE __attribute__((noinline))
#else
#define CORTADO_ONCE
#endif

/* In a short loop: compilers shall not make a call of memset of it, which would be linked for that alone, nor copies of
 * its body. */
#if defined(__GNUC__)
#define CORTADO_STAY_A_LOOP __asm__ volatile("" ::: "memory")
#else
#define CORTADO_STAY_A_LOOP ((void)0)
#endif

/* Four bytes from any address: one load where the core allows it. (The builtin stays inline in freestanding C.) */
static inline int32_t cortado_load4(const int8_t *p)
{
#if defined(CORTADO_ALIGNED_ONLY)
    const uint8_t *const b = (const uint8_t *)p;
    const uint32_t v = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    return (int32_t)v;
#else
    int32_t v;
#if defined(__GNUC__)
    __builtin_memcpy(&v, p, sizeof v);
#else
    (void)memcpy(&v, p, sizeof v);
#endif
    return v;
#endif
}

static inline void cortado_store4(int8_t *p, int32_t v)
{
#if defined(CORTADO_ALIGNED_ONLY)
    p[0] = (int8_t)v;
    p[1] = (int8_t)(v >> 8);
    p[2] = (int8_t)(v >> 16);
    p[3] = (int8_t)(v >> 24);
#elif defined(__GNUC__)
    __builtin_memcpy(p, &v, sizeof v);
#else
    (void)memcpy(p, &v, sizeof v);
#endif
}

/* The last 1 to 3 bytes before a border, as the lowest of a word, and back. (Bytes one by one become a call of
 * memcpy.) */
static inline int32_t cortado_load_few(const int8_t *p, int32_t n)
{
    uint32_t v = 0;
    while (n > 0) {
        v = v << 8 | (uint8_t)p[--n];
    }
    return (int32_t)v;
}

static inline void cortado_store_few(int8_t *p, int32_t v, int32_t n)
{
    for (; n > 0; n--, v >>= 8) {
        *p++ = (int8_t)v;
    }
}

static inline int32_t cortado_min(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int32_t cortado_max(int32_t a, int32_t b) { return a > b ? a : b; }
static inline int32_t cortado_round4(int32_t n) { return (n + 3) & ~3; }

static inline int32_t cortado_clamp(int32_t v, int32_t low, int32_t high)
{
    v = v < low ? low : v;
    return v > high ? high : v;
}

/* v * 2^n modulo 2^32: no undefined behaviour for negative v. */
static inline int32_t cortado_shl(int32_t v, int32_t n) { return (int32_t)((uint32_t)v << n); }

/* floor((a * m + 2^30) / 2^31) for any int32 a and m >= 0. */
static inline int32_t cortado_mul_high(int32_t a, int32_t m)
{
#if CORTADO_SMALL_CORE
    /* Four 16-bit products, both operands split into SIGNED halves: then the middle sum never leaves 32 bits, and the
     * low 16 bits of the product cannot reach the result (2^30 is a multiple of 2^16). */
    int32_t a_low = (int16_t)a, m_low = (int16_t)m;
    int32_t a_high = ((a >> 15) + 1) >> 1, m_high = ((m >> 15) + 1) >> 1;
    int32_t middle = a_high * m_low + a_low * m_high + ((a_low * m_low) >> 16) + (1 << 14);
    return (int32_t)(((uint32_t)(a_high * m_high) << 1) + (uint32_t)(middle >> 15));
#else
    return (int32_t)(((int64_t)a * m + (1 << 30)) >> 31);
#endif
}

/* v / 2^n, to nearest, ties away from zero; 0 <= n <= 31. */
static inline int32_t cortado_divide_pow2(int32_t v, int32_t n)
{
    if (n == 0) {
        return v;
    }
    v += v >> 31; /* ties of negative values go down; v is never INT32_MIN, see cortado_mul_high */
    v >>= n - 1;
    return (v >> 1) + (v & 1);
}

/* The zeros above the highest bit of a number that is not 0. */
#if defined(__GNUC__) && !CORTADO_SMALL_CORE
static inline int32_t cortado_leading_zeros(uint32_t v) { return __builtin_clz(v); }
#else
static inline int32_t cortado_leading_zeros(uint32_t v)
{
    static const uint8_t few[16] = {4, 3, 2, 2, 1, 1, 1, 1};
    int32_t n = 0;
    if (v >> 16 == 0) {
        n += 16;
        v <<= 16;
    }
    if (v >> 24 == 0) {
        n += 8;
        v <<= 8;
    }
    if (v >> 28 == 0) {
        n += 4;
        v <<= 4;
    }
    return n + few[v >> 28];
}
#endif

/* top / bottom, which has at most so many bits, and what is left. A core without an instruction for it does it bit by
 * bit: a bundle needs no library. */
static inline uint32_t cortado_quotient(uint32_t top, uint32_t bottom, int32_t bits, uint32_t *rest)
{
#if defined(__ARM_FEATURE_IDIV) && __ARM_ARCH_PROFILE == 'M'
    (void)bits;
    const uint32_t quotient = top / bottom;
    *rest = top - quotient * bottom;
#else
    uint32_t quotient = 0;
    for (int32_t bit = bits - 1; bit >= 0; bit--) {
        if (top >> bit >= bottom) {
            top -= bottom << bit;
            quotient |= (uint32_t)1 << bit;
        }
    }
    *rest = top;
#endif
    return quotient;
}

/* The rounding of every operator: acc * multiplier * 2^(shift - 31). acc * 2^shift has to fit in int32. */
static inline int32_t cortado_requant(int32_t acc, int32_t multiplier, int32_t shift)
{
    int32_t v = cortado_mul_high(shift > 0 ? cortado_shl(acc, shift) : acc, multiplier);
    return shift < 0 ? cortado_divide_pow2(v, -shift) : v;
}

/* cortado_requant for |acc * 2^max(shift, 0)| < 2^30, which the kernels with packed weights may rely on: one doubling
 * more fits, the rounded product is the high word of a long multiply, and no rounding constant can overflow. */
typedef struct {
    int32_t multiplier, shift;       /* as given */
    int32_t left, right, half;       /* 1 + max(shift, 0), max(-shift, 0), 2^right / 2 */
} cortado_factor_t;

static inline cortado_factor_t cortado_factor(int32_t multiplier, int32_t shift)
{
    const int32_t right = shift < 0 ? -shift : 0;
    const int32_t half = right > 0 ? 1 << (right - 1) : 0;
    const cortado_factor_t f = {multiplier, shift, shift < 0 ? 1 : shift + 1, right, half};
    return f;
}

static inline int32_t cortado_scale(int32_t acc, cortado_factor_t f)
{
#if CORTADO_SMALL_CORE
    int32_t v = cortado_mul_high(cortado_shl(acc, f.left - 1), f.multiplier);
#elif defined(__ARM_FEATURE_DSP)
    int32_t v;
    __asm__("smmulr %0, %1, %2" : "=r"(v) : "r"(cortado_shl(acc, f.left)), "r"(f.multiplier));
#else
    int32_t v = (int32_t)(((int64_t)cortado_shl(acc, f.left) * f.multiplier + 0x80000000) >> 32);
#endif
    v += (v & f.shift) >> 31; /* ties of negative values go down, if there is a right shift at all */
    return (v + f.half) >> f.right;
}

/* sum / count, ties away from zero; count > 0. */
static inline int32_t cortado_divide_round(int32_t sum, int32_t count)
{
    const int32_t half = count >> 1;
    return (sum + (sum < 0 ? -half : half)) / count;
}

/* How to divide sums of `count` > 0 bytes by their number: small cores, which have no divide instruction, do it
 * once. */
typedef struct {
    int32_t count;
    uint32_t inverse; /* 2^24 / count, rounded up */
} cortado_mean_t;

static inline cortado_mean_t cortado_mean(int32_t count)
{
#if CORTADO_SMALL_CORE
    const cortado_mean_t mean = {count, 0xFFFFFFu / (uint32_t)count + 1};
#else
    const cortado_mean_t mean = {count, 0};
#endif
    return mean;
}

/* sum / count, ties away from zero. */
static inline int32_t cortado_mean_of(cortado_mean_t mean, int32_t sum)
{
#if CORTADO_SMALL_CORE
    /* Exact while 129 * count^2 < 2^24, because |sum| + count / 2 < 129 * count. */
    if (mean.count <= 360) {
        const uint32_t size = (uint32_t)(sum < 0 ? -sum : sum) + (uint32_t)mean.count / 2;
        const int32_t quotient = (int32_t)((size * mean.inverse) >> 24);
        return sum < 0 ? -quotient : quotient;
    }
#endif
    return cortado_divide_round(sum, mean.count);
}

/* The elements of n that may be processed channel by channel: all, or those of one pixel if the output starts less than
 * n bytes before the input and would overwrite the channels still to be read. */
static inline int32_t cortado_channel_span(const int8_t *in, const int8_t *out, int32_t n, int32_t channels)
{
    const uintptr_t before = (uintptr_t)in - (uintptr_t)out;
    return before > 0 && before < (uintptr_t)n ? channels : n;
}

#endif /* CORTADO_MATH_H */
