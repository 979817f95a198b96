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

/* A function call would pass this structure through memory. */
#if defined(__GNUC__)
#define CORTADO_F32_INLINE static inline __attribute__((always_inline))
#else
#define CORTADO_F32_INLINE static inline
#endif

/* Rarely used functions are not inlined. */
#if defined(__GNUC__)
#define CORTADO_F32_CALLED static __attribute__((noinline, unused))
#else
#define CORTADO_F32_CALLED static inline
#endif

typedef struct {
    uint32_t n;    /* quarter turns; the two lowest bits count */
    float r, lost; /* what is left, |r| < 0.7854, and what its rounding lost */
} cortado_f32_angle_t;

/* 32 bits from bit `left` of two words on. */
static inline uint32_t cortado_f32_window(uint32_t high, uint32_t low, uint32_t left)
{
    return high << left | low >> 1 >> (31 - left);
}

/* A small rest of a quarter turn, size * 2^-62 of it: normalized, then times pi / 2. */
static inline float cortado_f32_small_angle(uint64_t size, float *lost)
{
    const int32_t zeros = cortado_f32_zeros(size);
    const int32_t product = (int32_t)(((uint64_t)(uint32_t)((size << zeros) >> 32) * 0xC90FDAA2u) >> 33);
    const float whole = (float)product, scale = cortado_f32_power2(-28 - zeros);
    *lost = cortado_f32_mul((float)(int32_t)((uint32_t)product - (uint32_t)whole), scale);
    return cortado_f32_mul(whole, scale);
}

/* Of 0 < a < 128. The first two parts of pi / 2 have 17 bits each, so their products with up to 82 turns are exact, and
 * so is what the first one leaves. */
static inline cortado_f32_angle_t cortado_f32_usual_angle(float a)
{
    const float shifted = cortado_f32_step(a, 0.636619747f, 12582912.0f); /* no fraction bits are left */
    const float turns = shifted - 12582912.0f;
    const float above = a - cortado_f32_mul(turns, 1.57080078f), middle = cortado_f32_mul(turns, -4.45445767e-06f);
    const float near = above - middle;
    const float below = ((above - near) - middle) - cortado_f32_mul(turns, 2.56334407e-12f);
    const float r = near + below;
    const cortado_f32_angle_t angle = {cortado_f32_bits(shifted), r, (near - r) + below};
    return angle;
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
    if (bits < 0x43000000u) { /* 128 */
        return cortado_f32_usual_angle(a);
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
    const float lost = cortado_f32_step(angle.lost, z, angle.lost);
    const float found = r + (cortado_f32_mul(cortado_f32_mul(r, z), p) + lost);
    const float value = angle.n & 1 ? -1.0f / found : found;
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

/* sqrt(z) - upper: the lower part of a root whose upper half is known. */
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

/* The upper half of a product, and of its sum with b * 2^32. */
static inline int32_t cortado_f32_upper_product(int32_t a, int32_t x) { return (int32_t)(((int64_t)a * x) >> 32); }

static inline int32_t cortado_f32_fixed(int32_t a, int32_t x, int32_t b) { return cortado_f32_upper_product(a, x) + b; }

/* 2^9 / c and (log2(c) - 126) * 2^54 for a c in each sixteenth of the mantissas, of which the one about 1 is exact;
 * polynomials in fixed point, the highest power first: log2(1 + x) / x, at last * 2^30; 2^x * 2^30, and 64 more. */
static const struct {
    uint16_t inverse[16];
    int64_t log2_c[16];
    int32_t slope[6], exp2[7];
} cortado_f32_powers = {
    {716, 686, 659, 633, 610, 588, 567, 548, 531, 512, 485, 458, 434, 412, 392, 374},
    {-2278529862411543072, -2277417455089378356, -2276373878981157768, -2275327729436577434,
     -2274365827984459364, -2273411189385934960, -2272466020375197678, -2271580201203895511,
     -2270761194010782702, -2269814212194729984, -2268406223688062169, -2266917565154693222,
     -2265518701071889996, -2264166707758895965, -2262873441784840910, -2261651788428291797},
    {-8058677, 19455153, -48408915, 129089801, -387270501, 1549082005},
    {234992, 2034832, 14604948, 84281741, 364784020, 1052544206, 1518500314}};

/* Polynomials in fixed point. Loads behind loads take a cycle each, so they come in groups. */
#if defined(__ARM_FEATURE_DSP)
static inline int32_t cortado_f32_fixed_of_six(const int32_t c[6], int32_t x)
{
    int32_t value, next, last;
    __asm__("ldr %0, %4\n"
            "ldr %1, %5\n"
            "ldr %2, %6\n"
            "smmla %0, %0, %3, %1\n"
            "smmla %0, %0, %3, %2\n"
            "ldr %1, %7\n"
            "ldr %2, %8\n"
            "smmla %0, %0, %3, %1\n"
            "ldr %1, %9\n"
            "smmla %0, %0, %3, %2\n"
            "smmla %0, %0, %3, %1\n"
            : "=&r"(value), "=&r"(next), "=&r"(last)
            : "r"(x), "m"(c[0]), "m"(c[1]), "m"(c[2]), "m"(c[3]), "m"(c[4]), "m"(c[5]));
    return value;
}

static inline int32_t cortado_f32_fixed_of_seven(const int32_t c[7], int32_t x)
{
    int32_t value, b, d, e;
    __asm__("ldr %0, %5\n"
            "ldr %1, %6\n"
            "ldr %2, %7\n"
            "ldr %3, %8\n"
            "smmla %0, %0, %4, %1\n"
            "smmla %0, %0, %4, %2\n"
            "ldr %1, %9\n"
            "ldr %2, %10\n"
            "smmla %0, %0, %4, %3\n"
            "ldr %3, %11\n"
            "smmla %0, %0, %4, %1\n"
            "smmla %0, %0, %4, %2\n"
            "smmla %0, %0, %4, %3\n"
            : "=&r"(value), "=&r"(b), "=&r"(d), "=&r"(e)
            : "r"(x), "m"(c[0]), "m"(c[1]), "m"(c[2]), "m"(c[3]), "m"(c[4]), "m"(c[5]), "m"(c[6]));
    return value;
}
#else
static inline int32_t cortado_f32_fixed_of_six(const int32_t c[6], int32_t x)
{
    int32_t value = c[0];
    for (int32_t i = 1; i < 6; i++) {
        value = cortado_f32_fixed(value, x, c[i]);
    }
    return value;
}

static inline int32_t cortado_f32_fixed_of_seven(const int32_t c[7], int32_t x)
{
    return cortado_f32_fixed(cortado_f32_fixed_of_six(c, x), x, c[6]);
}
#endif

/* e and r for which x = 2^(e - 126) * c * (1 + r * 2^-33), c that of a part; of the bits of a positive normal x. */
typedef struct {
    uint32_t e, part;
    int32_t r;
} cortado_f32_mantissa_t;

static inline cortado_f32_mantissa_t cortado_f32_split_mantissa(uint32_t bits)
{
    const uint32_t offset = bits - 0x330000u, e = offset >> 23, part = offset >> 19 & 15;
    const uint32_t mantissa = ((bits & 0x7FFFFFu) | 0x800000u) << ((bits >> 23) - e); /* from 0.7 to 1.4, * 2^24 */
    /* Below 2^28 in size, so its lowest 32 bits are enough: 2^33 is a multiple of 2^32. */
    const cortado_f32_mantissa_t split = {e, part, (int32_t)(mantissa * cortado_f32_powers.inverse[part])};
    return split;
}

/* log2(x) * 2^62, of x from 0.7 to 1.4 (*near is 1), elsewhere * 2^54; of positive finite numbers. */
static inline int64_t cortado_f32_log2_fixed(float x, int32_t *near)
{
    int32_t e = 0;
    if (x < 1.17549435e-38f) {
        x = x * 8388608.0f;
        e = -23;
    }
    const cortado_f32_mantissa_t of = cortado_f32_split_mantissa(cortado_f32_bits(x));
    const int64_t one = (int64_t)126 << 54;
    const int32_t r = of.r, half = r >> 1; /* * 2^32 */
    int32_t slope = cortado_f32_fixed(-517486128, half, 620207962); /* * 2^31 */
    slope = cortado_f32_fixed(slope, half, -774539946);
    slope = cortado_f32_fixed(slope, half, 1032721173);
    slope = cortado_f32_fixed(slope, half, -1549082005);
    const int64_t factor = 6653256548922161246 + (((int64_t)slope * r) >> 2);
    const int64_t product =
        (((int64_t)r * (int32_t)(factor >> 32)) >> 1) + (((int64_t)r * (int64_t)(uint32_t)factor) >> 33);
    const int64_t value = (cortado_f32_powers.log2_c[of.part] + one) * 256 + product;
    e += (int32_t)of.e - 126;
    *near = e == 0;
    return e == 0 ? value : (value >> 8) + (int64_t)e * ((int64_t)1 << 54);
}

/* 2^x * 2^30 + 64 of x * 2^32. */
static inline int32_t cortado_f32_exp2_fixed(uint32_t x)
{
    return cortado_f32_fixed_of_seven(cortado_f32_powers.exp2, (int32_t)(x ^ 0x80000000u));
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
    return cortado_f32_scaled((float)(cortado_f32_exp2_fixed((uint32_t)power) - 64), n - 30);
}

CORTADO_F32_CALLED float cortado_f32_any_pow(float x, float y)
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

/* What is to be known of an exponent from 2^-18 to 128 in size: its mantissa with its sign, and what is to be shifted
 * down behind a product with that; 0 for other exponents. */
typedef struct {
    int32_t mantissa;
    uint32_t down;
} cortado_f32_exponent_t;

static inline cortado_f32_exponent_t cortado_f32_exponent(float y)
{
    const uint32_t bits = cortado_f32_bits(y), down = 140u - (bits >> 23 & 255);
    const int32_t size = (int32_t)((bits & 0x7FFFFFu) | 0x800000u);
    const cortado_f32_exponent_t exponent = {bits >> 31 ? -size : size, down - 7u > 24u ? 0 : down};
    return exponent;
}

/* What most powers are, of positive normal x and exponents as above: log2(x) * 2^54 is exact enough, and its product
 * with y needs no more than 64 bits. Returns whether the power is such a one; then its bits are in `found`. */
CORTADO_F32_INLINE int cortado_f32_usual_pow(uint32_t x, cortado_f32_exponent_t y, uint32_t *found)
{
    if (x - 0x800000u >= 0x7F000000u) {
        return 0;
    }
    const cortado_f32_mantissa_t of = cortado_f32_split_mantissa(x);
    const int32_t slope = cortado_f32_fixed_of_six(cortado_f32_powers.slope, of.r); /* * 2^30 */
    const int64_t log2_x = (((int64_t)of.r * slope) >> 9) + cortado_f32_powers.log2_c[of.part];
    const uint32_t low = (uint32_t)log2_x; /* taken as signed */
    const int32_t high = (int32_t)((uint32_t)(log2_x >> 32) + (of.e << 22) + (low >> 31));
    const int64_t product = (int64_t)high * y.mantissa + cortado_f32_upper_product((int32_t)low, y.mantissa);
    const int32_t above = (int32_t)(product >> 32);
    const uint32_t exponent = (uint32_t)((above >> y.down) + 126);
    if (exponent > 252u) {
        return 0;
    }
    const uint32_t part = (uint32_t)product >> y.down | (uint32_t)above << (32u - y.down);
    *found = ((uint32_t)cortado_f32_exp2_fixed(part) >> 7) + (exponent << 23);
    return 1;
}

static inline float cortado_f32_pow(float x, float y)
{
    const cortado_f32_exponent_t exponent = cortado_f32_exponent(y);
    uint32_t found;
    if (exponent.down != 0 && cortado_f32_usual_pow(cortado_f32_bits(x), exponent, &found)) {
        return cortado_f32_from(found);
    }
    return cortado_f32_any_pow(x, y);
}

#endif /* CORTADO_F32_ANGLES_H */
