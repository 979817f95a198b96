/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of real numbers, each a fixed sequence of IEEE binary32 and integer operations: the same bits on every
 * machine, and at most 2 units in the last place from the true value. Internal, and without a library of mathematics.
 */
#ifndef CORTADO_F32_H
#define CORTADO_F32_H

#include "cortado_root.h"

#include <float.h>

/* Flags that let a compiler reorder sums or quotients change bits. */
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \
    (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "Cortado's float kernels need IEEE arithmetic: compile them without -ffast-math, -Ofast and their parts"
#endif
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "Cortado's float kernels need float to be computed as float: on x86, compile them with -msse2 -mfpmath=sse"
#endif
#if defined(__clang__)
#pragma clang fp contract(off) reassociate(off)
#if __clang_major__ >= 18
#pragma clang fp reciprocal(off)
#endif
#endif

/* A register of floating point numbers, for the compiler. */
#if defined(__arm__) && defined(__ARM_FP) && (__ARM_FP & 4)
#define CORTADO_F32_REGISTER "t"
#elif defined(__arm__) || defined(__wasm__)
#define CORTADO_F32_REGISTER "r"
#elif defined(__aarch64__)
#define CORTADO_F32_REGISTER "w"
#elif defined(__x86_64__) || defined(__i386__)
#define CORTADO_F32_REGISTER "x"
#elif defined(__riscv_flen)
#define CORTADO_F32_REGISTER "f"
#endif

/* A product, rounded. Fused with a sum it would not be, and no other means against that is safe from every flag: gcc
 * ignores the standard's pragma, clang its own under -ffp-contract=fast. So the compiler is not to know that the number
 * is a product; this costs no instruction. */
static inline float cortado_f32_mul(float a, float b)
{
#if defined(__GNUC__) && defined(CORTADO_F32_REGISTER) && !defined(__wasm__)
    float product = a * b;
    __asm__("" : "+" CORTADO_F32_REGISTER(product));
    return product;
#elif defined(__wasm__)
    return a * b; /* it has no fused instruction */
#else
    volatile float product = a * b;
    return product;
#endif
}

/* a * x + b, rounded twice: a step of Horner's rule. */
static inline float cortado_f32_step(float a, float x, float b) { return cortado_f32_mul(a, x) + b; }

static inline uint32_t cortado_f32_bits(float x)
{
    uint32_t bits;
#if defined(__GNUC__)
    __builtin_memcpy(&bits, &x, sizeof bits);
#else
    (void)memcpy(&bits, &x, sizeof bits);
#endif
    return bits;
}

static inline float cortado_f32_from(uint32_t bits)
{
    float x;
#if defined(__GNUC__)
    __builtin_memcpy(&x, &bits, sizeof x);
#else
    (void)memcpy(&x, &bits, sizeof x);
#endif
    return x;
}

static inline float cortado_f32_nan(void) { return cortado_f32_from(0x7FC00000u); }
static inline float cortado_f32_infinity(void) { return cortado_f32_from(0x7F800000u); }

/* Every NaN as one pattern: cores disagree on which comes out of an operation. */
static inline float cortado_f32_canonical(float x) { return x == x ? x : cortado_f32_nan(); }

static inline float cortado_f32_abs(float x) { return cortado_f32_from(cortado_f32_bits(x) & 0x7FFFFFFFu); }

/* A non-negative number with the sign of another. */
static inline float cortado_f32_signed(float value, float sign)
{
    return cortado_f32_from(cortado_f32_bits(value) | (cortado_f32_bits(sign) & 0x80000000u));
}

/* x without its 12 lowest bits: a product of two of these is exact. */
static inline float cortado_f32_upper(float x) { return cortado_f32_from(cortado_f32_bits(x) & 0xFFFFF000u); }

/* 2^n of n from -126 to 127. */
static inline float cortado_f32_power2(int32_t n) { return cortado_f32_from((uint32_t)(n + 127) << 23); }

/* x * 2^n by two factors, so that n may be twice what one holds. */
static inline float cortado_f32_scaled(float x, int32_t n)
{
    const int32_t half = n >> 1;
    return cortado_f32_mul(cortado_f32_mul(x, cortado_f32_power2(half)), cortado_f32_power2(n - half));
}

/* ---- integers ---- */

/* Without its fraction; saturates, and NaN becomes 0, or what is nearest to it. */
static inline int32_t cortado_f32_to_int(float x, int32_t low, int32_t high)
{
    int32_t v = 0;
    if (x >= 2147483648.0f) {
        v = INT32_MAX;
    } else if (x < -2147483648.0f) {
        v = INT32_MIN;
    } else if (x == x) {
        v = (int32_t)x;
    }
    return cortado_clamp(v, low, high);
}

static inline float cortado_f32_trunc(float x)
{
    const float a = cortado_f32_abs(x);
    return a < 8388608.0f ? cortado_f32_signed((float)(int32_t)a, x) : cortado_f32_canonical(x);
}

static inline float cortado_f32_floor(float x)
{
    const float whole = cortado_f32_trunc(x);
    return whole > x ? whole - 1.0f : whole;
}

static inline float cortado_f32_ceil(float x)
{
    return x == x ? -cortado_f32_floor(-x) : cortado_f32_nan();
}

/* To the nearest, ties to even. */
static inline float cortado_f32_rint(float x)
{
    const float a = cortado_f32_abs(x);
    return a < 8388608.0f ? cortado_f32_signed((a + 8388608.0f) - 8388608.0f, x) : cortado_f32_canonical(x);
}

/* ---- roots ---- */

/* The root of a positive finite number in integers: 31 bits of it, rounded to 24; there are no ties. */
static inline float cortado_f32_integer_root(float x)
{
    int32_t e = -127;
    if (x < 1.17549435e-38f) {
        x = x * 16777216.0f;
        e -= 24;
    }
    const uint32_t bits = cortado_f32_bits(x);
    e += (int32_t)(bits >> 23);
    const uint32_t root = cortado_root((uint64_t)((bits & 0x7FFFFFu) | 0x800000u) << (37 + (e & 1)));
    return cortado_f32_from(((uint32_t)((e >> 1) + 126) << 23) + ((root + 64) >> 7));
}

static inline float cortado_f32_sqrt(float x)
{
#if defined(__GNUC__) && defined(__arm__) && defined(__ARM_FP) && (__ARM_FP & 4)
    float root;
    __asm__("vsqrt.f32 %0, %1" : "=t"(root) : "t"(x));
    return cortado_f32_canonical(root);
#else
    if (!(x > 0.0f && x < cortado_f32_infinity())) {
        return x >= 0.0f ? x : cortado_f32_nan();
    }
    return cortado_f32_integer_root(x);
#endif
}

static inline float cortado_f32_reciprocal(float x) { return cortado_f32_canonical(1.0f / x); }
static inline float cortado_f32_rsqrt(float x) { return cortado_f32_canonical(1.0f / cortado_f32_sqrt(x)); }

/* ---- exponentials ---- */

/* (e^x - 1 - x) / x^2 of |x| <= 0.51. */
static inline float cortado_f32_exp_tail(float x)
{
    float p = 0.000200864524f;
    p = cortado_f32_step(p, x, 0.00140110299f);
    p = cortado_f32_step(p, x, 0.00833285227f);
    p = cortado_f32_step(p, x, 0.0416649543f);
    p = cortado_f32_step(p, x, 0.166666687f);
    return cortado_f32_step(p, x, 0.50000006f);
}

/* n and q for which e^x = 2^n * (1 + q), |q| < 0.42; of |x| < 105. */
static inline float cortado_f32_reduced_exp(float x, int32_t *n)
{
    const float shifted = cortado_f32_step(x, 1.44269504f, 12582912.0f); /* no fraction bits are left */
    const float turns = shifted - 12582912.0f;
    const float above = x - cortado_f32_mul(turns, 0.693359375f);
    const float r = above - cortado_f32_mul(turns, -2.12194442e-4f);
    *n = (int32_t)(cortado_f32_bits(shifted) - 0x4B400000u);
    return cortado_f32_step(cortado_f32_exp_tail(r), cortado_f32_mul(r, r), r);
}

static inline float cortado_f32_exp(float x)
{
    int32_t n;
    if (!(x < 88.7228470f && x > -104.0f)) {
        return x > 0.0f ? cortado_f32_infinity() : x == x ? 0.0f : cortado_f32_nan();
    }
    const float q = cortado_f32_reduced_exp(x, &n);
    return cortado_f32_scaled(q + 1.0f, n);
}

static inline float cortado_f32_exp2(float x)
{
    if (!(x < 128.0f && x > -151.0f)) {
        return x > 0.0f ? cortado_f32_infinity() : x == x ? 0.0f : cortado_f32_nan();
    }
    const float shifted = x + 12582912.0f;
    const float r = x - (shifted - 12582912.0f);
    float p = 0.000154628826f;
    p = cortado_f32_step(p, r, 0.00133909844f);
    p = cortado_f32_step(p, r, 0.00961806253f);
    p = cortado_f32_step(p, r, 0.0555035956f);
    p = cortado_f32_step(p, r, 0.240226507f);
    p = cortado_f32_step(p, r, 0.693147182f);
    return cortado_f32_scaled(cortado_f32_step(p, r, 1.0f), (int32_t)(cortado_f32_bits(shifted) - 0x4B400000u));
}

static inline float cortado_f32_expm1(float x)
{
    const float a = cortado_f32_abs(x);
    int32_t n;
    if (a < 0.5f) {
        return a < 2.98023224e-8f ? x : cortado_f32_step(cortado_f32_exp_tail(x), cortado_f32_mul(x, x), x);
    }
    if (!(x < 16.5f && x > -18.0f)) {
        return cortado_f32_canonical(cortado_f32_exp(x) - 1.0f);
    }
    const float q = cortado_f32_reduced_exp(x, &n);
    const float power = cortado_f32_power2(n);
    return cortado_f32_mul(q, power) + (power - 1.0f);
}

/* 1 / (1 + e^-x), whose sum is rounded once. */
static inline float cortado_f32_sigmoid(float x)
{
    int32_t n;
    const int usual = cortado_f32_abs(x) < 16.0f; /* most are: n is less than 24 */
    if (!usual && !(x > -104.0f && x < 18.0f)) {
        return x > 0.0f ? 1.0f : x == x ? 0.0f : cortado_f32_nan();
    }
    const float q = cortado_f32_reduced_exp(-x, &n);
    if (usual || n < 24) {
        const float power = cortado_f32_power2(n);
        return 1.0f / ((power + 1.0f) + cortado_f32_mul(q, power));
    }
    if (n < 64) {
        const float power = cortado_f32_power2(n);
        return 1.0f / (power + cortado_f32_step(q, power, 1.0f));
    }
    const float power = cortado_f32_power2(n - 64);
    return cortado_f32_mul(1.0f / (power + cortado_f32_mul(q, power)), 5.42101086e-20f);
}

static inline float cortado_f32_tanh(float x)
{
    const float a = cortado_f32_abs(x);
    if (a < 0.625f) {
        const float z = cortado_f32_mul(a, a);
        float p = -0.00569229666f;
        p = cortado_f32_step(p, z, 0.0206281673f);
        p = cortado_f32_step(p, z, -0.0537365153f);
        p = cortado_f32_step(p, z, 0.133314058f);
        p = cortado_f32_step(p, z, -0.333332807f);
        return cortado_f32_signed(cortado_f32_step(cortado_f32_mul(p, z), a, a), x);
    }
    if (!(a < 9.1f)) {
        return x == x ? cortado_f32_signed(1.0f, x) : cortado_f32_nan();
    }
    int32_t n;
    const float q = cortado_f32_reduced_exp(a + a, &n);
    return cortado_f32_signed(1.0f - 2.0f / (cortado_f32_mul(q + 1.0f, cortado_f32_power2(n)) + 1.0f), x);
}

static inline float cortado_f32_erf(float x)
{
    const float a = cortado_f32_abs(x);
    if (a < 0.875f) {
        const float z = cortado_f32_mul(a, a);
        float p = 7.86152013e-05f;
        p = cortado_f32_step(p, z, -0.00080255745f);
        p = cortado_f32_step(p, z, 0.00519090705f);
        p = cortado_f32_step(p, z, -0.0268553607f);
        p = cortado_f32_step(p, z, 0.112836227f);
        p = cortado_f32_step(p, z, -0.376126289f);
        p = cortado_f32_step(p, z, 0.128379166f);
        return cortado_f32_signed(cortado_f32_step(p, a, a), x);
    }
    if (!(a < 4.0f)) {
        return x == x ? cortado_f32_signed(1.0f, x) : cortado_f32_nan();
    }
    float p = -0.000199901566f;
    p = cortado_f32_step(p, a, 0.00308200251f);
    p = cortado_f32_step(p, a, -0.0223810598f);
    p = cortado_f32_step(p, a, 0.104250252f);
    p = cortado_f32_step(p, a, 0.636820614f);
    p = cortado_f32_step(p, a, 1.12788939f);
    p = cortado_f32_step(p, a, 0.000144211808f);
    int32_t n;
    const float q = cortado_f32_reduced_exp(-p, &n);
    return cortado_f32_signed(1.0f - cortado_f32_mul(q + 1.0f, cortado_f32_power2(n)), x);
}

/* ---- logarithms ---- */

/* log(1 + f) - f, of f from -0.3 to 0.42. */
static inline float cortado_f32_log_tail(float f)
{
    const float z = cortado_f32_mul(f, f);
    float p = -0.0763643906f;
    p = cortado_f32_step(p, f, 0.127622172f);
    p = cortado_f32_step(p, f, -0.131596103f);
    p = cortado_f32_step(p, f, 0.1420158f);
    p = cortado_f32_step(p, f, -0.166234091f);
    p = cortado_f32_step(p, f, 0.200012416f);
    p = cortado_f32_step(p, f, -0.250008196f);
    p = cortado_f32_step(p, f, 0.333333313f);
    return cortado_f32_mul(cortado_f32_mul(f, z), p) - cortado_f32_mul(0.5f, z);
}

/* Whether a number is positive, finite and not denormal: what logarithms are made for. */
static inline int32_t cortado_f32_is_normal(float x) { return cortado_f32_bits(x) - 0x800000u < 0x7F000000u; }

/* n and f for which x = 2^n * (1 + f), f from -0.3 to 0.42; of numbers that cortado_f32_is_normal says yes to. */
static inline float cortado_f32_reduced_log(float x, int32_t *n)
{
    const uint32_t bits = cortado_f32_bits(x);
    *n = (int32_t)(bits - 0x3F3504F3u) >> 23;
    return cortado_f32_from(bits - ((uint32_t)*n << 23)) - 1.0f;
}

/* log(x) of 2^n * (1 + f), and in other bases. */
static inline float cortado_f32_log_of(float f, float n)
{
    const float tail = cortado_f32_log_tail(f) + cortado_f32_mul(n, -2.12194442e-4f);
    return (f + tail) + cortado_f32_mul(n, 0.693359375f);
}

static inline float cortado_f32_log2_of(float f, float n)
{
    const float upper = cortado_f32_upper(f);
    const float low = cortado_f32_mul(f, 0.000312228396f) + cortado_f32_mul(cortado_f32_log_tail(f), 1.44269504f);
    const float small = cortado_f32_mul(f - upper, 1.4423828125f) + low;
    return (small + cortado_f32_mul(upper, 1.4423828125f)) + n;
}

static inline float cortado_f32_log10_of(float f, float n)
{
    const float upper = cortado_f32_upper(f);
    const float low = cortado_f32_mul(f, -3.16899714e-05f) + cortado_f32_mul(cortado_f32_log_tail(f), 0.434294492f);
    const float small = cortado_f32_mul(f - upper, 0.434326172f) + low;
    const float sum = cortado_f32_step(n, 4.60503907e-06f, small) + cortado_f32_mul(upper, 0.434326172f);
    return sum + cortado_f32_mul(n, 0.301025391f);
}

/* For a number that isn't normal: a denormal one times 2^23 and *again = 1, or its logarithm and *again = 0. */
static inline float cortado_f32_log_rest(float x, int32_t *again)
{
    *again = x > 0.0f && x < cortado_f32_infinity();
    if (*again) {
        return x * 8388608.0f;
    }
    return x > 0.0f ? cortado_f32_infinity() : x == 0.0f ? -cortado_f32_infinity() : cortado_f32_nan();
}

static inline float cortado_f32_log_in(float x, float (*of)(float f, float n))
{
    int32_t n, again, less = 0;
    if (!cortado_f32_is_normal(x)) {
        x = cortado_f32_log_rest(x, &again);
        if (!again) {
            return x;
        }
        less = 23;
    }
    const float f = cortado_f32_reduced_log(x, &n);
    return of(f, (float)(n - less));
}

static inline float cortado_f32_log(float x) { return cortado_f32_log_in(x, cortado_f32_log_of); }
static inline float cortado_f32_log2(float x) { return cortado_f32_log_in(x, cortado_f32_log2_of); }
static inline float cortado_f32_log10(float x) { return cortado_f32_log_in(x, cortado_f32_log10_of); }

static inline float cortado_f32_log1p(float x)
{
    const float u = x + 1.0f; /* never denormal */
    int32_t n;
    if (!cortado_f32_is_normal(u)) {
        return cortado_f32_log_rest(u, &n);
    }
    const float f = cortado_f32_reduced_log(u, &n);
    if (n == 0) {
        return x + cortado_f32_log_tail(x);
    }
    const float lost = (x >= 1.0f ? 1.0f - (u - x) : x - (u - 1.0f)) / u; /* what u lacks */
    const float turns = (float)n;
    const float tail = cortado_f32_log_tail(f) + cortado_f32_step(turns, -2.12194442e-4f, lost);
    return (f + tail) + cortado_f32_mul(turns, 0.693359375f);
}

#endif /* CORTADO_F32_H */
