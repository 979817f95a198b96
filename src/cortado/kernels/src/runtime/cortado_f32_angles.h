/* SPDX-License-Identifier: Apache-2.0
 *
 * Angles and powers of real numbers, as cortado_f32.h has its functions. Internal.
 */
#ifndef CORTADO_F32_ANGLES_H
#define CORTADO_F32_ANGLES_H

#include "cortado_f32.h"

/* The zero bits above the highest one of a number that isn't zero. */
static inline int32_t cortado_f32_zeros(uint64_t x)
{
    const uint32_t high = (uint32_t)(x >> 32);
#if defined(__GNUC__)
    return high != 0 ? __builtin_clz(high) : 32 + __builtin_clz((uint32_t)x);
#else
    int32_t zeros = high != 0 ? 0 : 32;
    for (uint32_t v = high != 0 ? high : (uint32_t)x; v < 0x80000000u; v <<= 1) {
        zeros++;
    }
    return zeros;
#endif
}

/* A call would pass this structure through memory. */
#if defined(__GNUC__)
#define CORTADO_F32_INLINE static inline __attribute__((always_inline))
#else
#define CORTADO_F32_INLINE static inline
#endif

typedef struct {
    uint32_t n;    /* quarter turns, modulo 4 */
    float r, lost; /* what is left, |r| < 0.7854, and what its rounding lost */
} cortado_f32_angle_t;

/* 32 bits from bit `left` of two words on. */
static inline uint32_t cortado_f32_window(uint32_t high, uint32_t low, uint32_t left)
{
    return high << left | low >> 1 >> (31 - left);
}

/* What is left of a quarter turn where it is little, size * 2^-62 of it: the bits that count, then times pi / 2. */
static inline float cortado_f32_small_angle(uint64_t size, float *lost)
{
    const int32_t zeros = cortado_f32_zeros(size);
    const int32_t product = (int32_t)(((uint64_t)(uint32_t)((size << zeros) >> 32) * 0xC90FDAA2u) >> 33);
    const float whole = (float)product, scale = cortado_f32_power2(-28 - zeros);
    *lost = cortado_f32_mul((float)(int32_t)((uint32_t)product - (uint32_t)whole), scale);
    return cortado_f32_mul(whole, scale);
}

/* Of a >= 0. a times 2 / pi in integers, of which 64 bits count: two of the quarter turn, 62 behind it. Of 2 / pi it
 * needs 96 bits, from the one on where whole turns end. */
CORTADO_F32_INLINE cortado_f32_angle_t cortado_f32_angle(float a)
{
    static const uint32_t two_over_pi[8] = {0,           0xA2F9836Eu, 0x4E441529u, 0xFC2757D1u,
                                            0xF534DDC0u, 0xDB629599u, 0x3C439041u, 0xFE5163ABu};
    const uint32_t bits = cortado_f32_bits(a);
    cortado_f32_angle_t angle = {0, a, 0.0f};
    if (bits < 0x3F490FDBu) { /* pi / 4 */
        return angle;
    }
    const uint32_t mantissa = (bits & 0x7FFFFFu) | 0x800000u, at = (bits >> 23) - 120, left = at & 31;
    const uint32_t *const word = two_over_pi + (at >> 5);
    const uint64_t turns = ((uint64_t)(mantissa * cortado_f32_window(word[0], word[1], left)) << 32) +
                           (uint64_t)mantissa * cortado_f32_window(word[1], word[2], left) +
                           (((uint64_t)mantissa * cortado_f32_window(word[2], word[3], left)) >> 32);
    const uint32_t high = (uint32_t)(turns >> 32);
    angle.n = (high + 0x20000000u) >> 30;
    const uint32_t rest = high - (angle.n << 30);
    const int32_t upper = (int32_t)(rest << 2 | (uint32_t)turns >> 30); /* of a quarter turn, * 2^32 */
    const int32_t product = (int32_t)(((int64_t)upper * 0x6487ED51) >> 32);
    if ((uint32_t)product + 0x8000000u >= 0x10000000u) {
        const float whole = (float)product;
        angle.r = cortado_f32_mul(whole, 9.31322575e-10f);
        angle.lost = cortado_f32_mul((float)(product - (int32_t)whole), 9.31322575e-10f);
        return angle;
    }
    const uint64_t all = (uint64_t)rest << 32 | (uint32_t)turns;
    const uint32_t below = rest >> 31;
    angle.r = cortado_f32_small_angle(below ? 0 - all : all, &angle.lost);
    if (below) {
        angle.r = -angle.r;
        angle.lost = -angle.lost;
    }
    return angle;
}

static inline float cortado_f32_sine(float r)
{
    const float z = cortado_f32_mul(r, r);
    float p = -0.000195182918f;
    p = cortado_f32_step(p, z, 0.00833218917f);
    p = cortado_f32_step(p, z, -0.166666552f);
    return cortado_f32_step(cortado_f32_mul(r, z), p, r);
}

static inline float cortado_f32_cosine(float r)
{
    const float z = cortado_f32_mul(r, r);
    float p = 2.44306684e-05f;
    p = cortado_f32_step(p, z, -0.00138873013f);
    p = cortado_f32_step(p, z, 0.0416666456f);
    return cortado_f32_mul(cortado_f32_mul(z, z), p) + (1.0f - cortado_f32_mul(0.5f, z));
}

static inline float cortado_f32_sin(float x)
{
    const float a = cortado_f32_abs(x);
    if (cortado_f32_bits(a) >= 0x7F800000u) {
        return cortado_f32_nan();
    }
    const cortado_f32_angle_t angle = cortado_f32_angle(a);
    const float value = angle.n & 1 ? cortado_f32_cosine(angle.r) : cortado_f32_sine(angle.r);
    return (angle.n >> 1 ^ cortado_f32_bits(x) >> 31) & 1 ? -value : value;
}

static inline float cortado_f32_cos(float x)
{
    const float a = cortado_f32_abs(x);
    if (cortado_f32_bits(a) >= 0x7F800000u) {
        return cortado_f32_nan();
    }
    const cortado_f32_angle_t angle = cortado_f32_angle(a);
    const float value = angle.n & 1 ? cortado_f32_sine(angle.r) : cortado_f32_cosine(angle.r);
    return (angle.n + 1) & 2 ? -value : value;
}

static inline float cortado_f32_tan(float x)
{
    const float a = cortado_f32_abs(x);
    if (cortado_f32_bits(a) >= 0x7F800000u) {
        return cortado_f32_nan();
    }
    const cortado_f32_angle_t angle = cortado_f32_angle(a);
    const float r = angle.r, z = cortado_f32_mul(r, r);
    float p = 0.00437221956f;
    p = cortado_f32_step(p, z, 9.89918917e-05f);
    p = cortado_f32_step(p, z, 0.0108270301f);
    p = cortado_f32_step(p, z, 0.0212863032f);
    p = cortado_f32_step(p, z, 0.0540589057f);
    p = cortado_f32_step(p, z, 0.133326754f);
    p = cortado_f32_step(p, z, 0.333333492f);
    const float tail = cortado_f32_mul(cortado_f32_mul(r, z), p) + cortado_f32_step(angle.lost, z, angle.lost);
    float value = r + tail;
    if (angle.n & 1) { /* -1 / (r + tail), by halves whose product is exact */
        const float upper = cortado_f32_upper(value);
        const float inverse = -1.0f / value;
        const float first = cortado_f32_upper(inverse);
        const float over = cortado_f32_step(first, upper, 1.0f) + cortado_f32_mul(first, tail - (upper - r));
        value = cortado_f32_step(inverse, over, first);
    }
    return cortado_f32_bits(x) >> 31 ? -value : value;
}

/* ---- inverses ---- */

/* atan(q) of q from 0 to 1. */
static inline float cortado_f32_atan_to_one(float q)
{
    const float z = cortado_f32_mul(q, q);
    float p = -0.0017827797f;
    p = cortado_f32_step(p, z, 0.0108685717f);
    p = cortado_f32_step(p, z, -0.0310968719f);
    p = cortado_f32_step(p, z, 0.0578813404f);
    p = cortado_f32_step(p, z, -0.0839930549f);
    p = cortado_f32_step(p, z, 0.109508805f);
    p = cortado_f32_step(p, z, -0.142640159f);
    p = cortado_f32_step(p, z, 0.199985296f);
    p = cortado_f32_step(p, z, -0.333332986f);
    return cortado_f32_step(cortado_f32_mul(q, z), p, q);
}

static inline float cortado_f32_atan(float x)
{
    const float a = cortado_f32_abs(x);
    if (x != x) {
        return cortado_f32_nan();
    }
    const float angle = cortado_f32_atan_to_one(a > 1.0f ? 1.0f / a : a);
    return cortado_f32_signed(a > 1.0f ? 1.57079637f - (angle - -4.37113883e-8f) : angle, x);
}

static inline float cortado_f32_atan2(float y, float x)
{
    /* Numbers that aren't negative are ordered as their bits are. */
    const uint32_t ay = cortado_f32_bits(y) & 0x7FFFFFFFu, ax = cortado_f32_bits(x) & 0x7FFFFFFFu;
    const int32_t steep = ay > ax, left = (int32_t)(cortado_f32_bits(x) >> 31);
    const uint32_t top = steep ? ax : ay, bottom = steep ? ay : ax;
    if (bottom > 0x7F800000u) {
        return cortado_f32_nan();
    }
    /* Two infinities are equal, and so are two zeros. */
    float quotient = cortado_f32_from(top) / cortado_f32_from(bottom);
    if (top == bottom) {
        quotient = bottom == 0 ? 0.0f : 1.0f;
    }
    float angle = cortado_f32_atan_to_one(quotient);
    if (steep || left) {
        angle = steep == left ? angle : -angle;
        angle = steep ? 1.57079637f + (angle + -4.37113883e-8f) : 3.14159274f + (angle + -8.74227766e-8f);
    }
    return cortado_f32_signed(angle, y);
}

/* asin(x) / x - 1 of x * x = z, from 0 to 0.25. */
static inline float cortado_f32_asin_tail(float z)
{
    float p = 0.0421583056f;
    p = cortado_f32_step(p, z, 0.0241847783f);
    p = cortado_f32_step(p, z, 0.0454691499f);
    p = cortado_f32_step(p, z, 0.0749530941f);
    p = cortado_f32_step(p, z, 0.166667521f);
    return cortado_f32_mul(z, p);
}

/* What the upper half of a root lacks. */
static inline float cortado_f32_root_rest(float z, float root, float upper)
{
    return (z - cortado_f32_mul(upper, upper)) / (root + upper);
}

static inline float cortado_f32_asin(float x)
{
    const float a = cortado_f32_abs(x);
    if (a < 0.5f) {
        return cortado_f32_signed(cortado_f32_step(a, cortado_f32_asin_tail(cortado_f32_mul(a, a)), a), x);
    }
    if (!(a < 1.0f)) {
        return a == 1.0f ? cortado_f32_signed(1.57079637f, x) : cortado_f32_nan();
    }
    const float z = cortado_f32_mul(1.0f - a, 0.5f);
    const float root = cortado_f32_sqrt(z), upper = cortado_f32_upper(root);
    const float lost = cortado_f32_mul(2.0f, cortado_f32_root_rest(z, root, upper));
    const float above =
        cortado_f32_mul(cortado_f32_mul(2.0f, root), cortado_f32_asin_tail(z)) - (-4.37113883e-8f - lost);
    const float result = 0.785398185f - (above - (0.785398185f - cortado_f32_mul(2.0f, upper)));
    return cortado_f32_signed(result, x);
}

static inline float cortado_f32_acos(float x)
{
    const float a = cortado_f32_abs(x);
    if (a < 0.5f) {
        const float product = cortado_f32_mul(x, cortado_f32_asin_tail(cortado_f32_mul(x, x)));
        return 1.57079637f - (x - (-4.37113883e-8f - product));
    }
    if (!(a < 1.0f)) {
        return a == 1.0f ? (x > 0.0f ? 0.0f : 3.14159274f) : cortado_f32_nan();
    }
    const float z = cortado_f32_mul(1.0f - a, 0.5f);
    const float root = cortado_f32_sqrt(z), tail = cortado_f32_mul(root, cortado_f32_asin_tail(z));
    if (x > 0.0f) {
        const float upper = cortado_f32_upper(root);
        return cortado_f32_mul(2.0f, upper + (tail + cortado_f32_root_rest(z, root, upper)));
    }
    return 3.14159274f - cortado_f32_mul(2.0f, root + (tail - -4.37113883e-8f));
}

/* ---- powers ---- */

/* A step of Horner's rule on fixed point. */
static inline int32_t cortado_f32_fixed(int32_t a, int32_t x, int32_t b)
{
    return (int32_t)(((int64_t)a * x) >> 32) + b;
}

/* log2(x) * 2^62, of x from 0.7 to 1.4 (*near is 1), elsewhere * 2^54; of positive finite numbers. */
static inline int64_t cortado_f32_log2_fixed(float x, int32_t *near)
{
    /* 2^9 / c and log2(c) * 2^62 for a c in each sixteenth of the mantissas; the one about 1 is exact. */
    static const int16_t inverse[16] = {716, 686, 659, 633, 610, 588, 567, 548, 531, 512, 485, 458, 434, 412, 392, 374};
    static const int64_t log2_c[16] = {
        -2231206455504150653, -1946430181029983334, -1679274697325512644, -1411460413912947122,
        -1165213642170721211, -920826160948473729,  -678862894199729772,  -452093186346374828,
        -242427344909495863,  0,                    360445057706960753,   741541642249411165,
        1099650847447036895,  1445761135573508750,  1776837224931603046,  2089580484208175971};
    int32_t e = 0;
    if (x < 1.17549435e-38f) {
        x = x * 8388608.0f;
        e = -23;
    }
    const int32_t bits = (int32_t)cortado_f32_bits(x), offset = bits - 0x3F330000;
    const int32_t part = offset >> 19 & 15;
    const int32_t one = bits - (offset >> 23) * 0x800000; /* of the number from 0.7 to 1.4 */
    const int32_t mantissa = ((one & 0x7FFFFF) | 0x800000) << (one >= 0x3F800000);
    /* Below 2^28 in size, so its lowest 32 bits are enough: 2^33 is a multiple of 2^32. */
    const int32_t r = (int32_t)((uint32_t)mantissa * (uint32_t)inverse[part]);
    const int32_t half = r >> 1; /* * 2^32 */
    int32_t slope = cortado_f32_fixed(-517486128, half, 620207962); /* * 2^31 */
    slope = cortado_f32_fixed(slope, half, -774539946);
    slope = cortado_f32_fixed(slope, half, 1032721173);
    slope = cortado_f32_fixed(slope, half, -1549082005);
    const int64_t factor = 6653256548922161246 + (((int64_t)slope * r) >> 2);
    const int64_t value = log2_c[part] + (((int64_t)r * (int32_t)(factor >> 32)) >> 1) +
                          (((int64_t)r * (int64_t)(uint32_t)factor) >> 33);
    e += offset >> 23;
    *near = e == 0;
    return e == 0 ? value : (value >> 8) + (int64_t)e * ((int64_t)1 << 54);
}

/* x^y of finite x > 0 that isn't 1, and finite y: 2^(y * log2(x)) in integers. */
static inline float cortado_f32_positive_pow(float x, float y)
{
    int32_t near;
    const int64_t log2_x = cortado_f32_log2_fixed(x, &near);
    uint64_t size = (uint64_t)(log2_x < 0 ? -log2_x : log2_x);
    const int32_t zeros = cortado_f32_zeros(size);
    size <<= zeros;
    const uint32_t bits = cortado_f32_bits(y), mantissa = (bits & 0x7FFFFFu) | 0x800000u;
    const uint64_t product = (size >> 32) * mantissa + (((size & 0xFFFFFFFFu) * mantissa) >> 32);
    const int32_t down = zeros + (near ? 148 : 140) - (int32_t)(bits >> 23 & 255);
    if (down > 63) {
        return 1.0f;
    }
    int64_t power = down < 14 ? (int64_t)1 << 41 : (int64_t)(product >> down); /* * 2^32 */
    power = (log2_x < 0) != (bits >> 31 != 0) ? -power : power;
    const int32_t n = (int32_t)(power >> 32);
    if (n > 127 || n < -152) {
        return n > 0 ? cortado_f32_infinity() : 0.0f;
    }
    const int32_t middle = (int32_t)((uint32_t)power - 0x80000000u);
    int32_t value = cortado_f32_fixed(234992, middle, 2034832); /* * 2^30 */
    value = cortado_f32_fixed(value, middle, 14604948);
    value = cortado_f32_fixed(value, middle, 84281741);
    value = cortado_f32_fixed(value, middle, 364784020);
    value = cortado_f32_fixed(value, middle, 1052544206);
    value = cortado_f32_fixed(value, middle, 1518500250);
    return cortado_f32_scaled((float)value, n - 30);
}

static inline float cortado_f32_pow(float x, float y)
{
    const float ax = cortado_f32_abs(x), ay = cortado_f32_abs(y);
    if (y == 0.0f || x == 1.0f) {
        return 1.0f;
    }
    if (x != x || y != y) {
        return cortado_f32_nan();
    }
    int32_t negative = 0;
    if (cortado_f32_bits(x) >> 31 && ay < 16777216.0f) { /* above, all numbers are even */
        const int32_t whole = (int32_t)ay;
        if ((float)whole != ay) {
            if (x < 0.0f && ax < cortado_f32_infinity()) {
                return cortado_f32_nan();
            }
        } else {
            negative = whole & 1;
        }
    }
    float size = 1.0f;
    if (!(ax > 0.0f && ax < cortado_f32_infinity() && ay < cortado_f32_infinity())) {
        size = ax == 1.0f ? 1.0f : (ax > 1.0f) == (y > 0.0f) ? cortado_f32_infinity() : 0.0f;
    } else if (ax != 1.0f) {
        size = cortado_f32_positive_pow(ax, y);
    }
    return negative ? -size : size;
}

#endif /* CORTADO_F32_ANGLES_H */
