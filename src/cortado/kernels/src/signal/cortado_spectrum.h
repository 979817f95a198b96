/* SPDX-License-Identifier: Apache-2.0
 *
 * What all kernels of spectra share: the sizes of bins, and the codes of bands. Internal.
 */
#ifndef CORTADO_SPECTRUM_H
#define CORTADO_SPECTRUM_H

#include "cortado.h"
#include "cortado_fft.h"
#include "cortado_root.h"

/* A rarely called function: short rather than fast. */
#if defined(__GNUC__)
#define CORTADO_SELDOM __attribute__((noinline, cold, unused))
#else
#define CORTADO_SELDOM
#endif

/* A bin: a complex number, then its power as two words, or its magnitude as the first of them. */
typedef union {
    cortado_complex_t z;
    uint32_t word[2];
} cortado_bin_t;

/* The number of groups in a stage: the product of the radices after it. */
static inline int32_t cortado_groups(const cortado_spectrum_t *L, int32_t stage)
{
    int32_t count = 1;
    while (++stage < L->stages) {
        count *= L->radix[stage];
    }
    return count;
}

static inline void cortado_put_power(cortado_bin_t *bin, int32_t re, int32_t im)
{
#if CORTADO_SMALL_CORE
    /* (high^2) * 2^32 + (high * low) * 2^17 + low^2 of both, with the carries. */
    const uint32_t a = (uint32_t)(re < 0 ? -re : re), b = (uint32_t)(im < 0 ? -im : im);
    const uint32_t ah = a >> 16, al = a & 0xFFFF, bh = b >> 16, bl = b & 0xFFFF;
    const uint32_t middle = ah * al + bh * bl, other = bl * bl, shifted = middle << 17;
    uint32_t low = al * al + other, high = ah * ah + bh * bh + (low < other);
    low += shifted;
    high += (low < shifted) + (middle >> 15);
    bin->word[0] = low;
    bin->word[1] = high;
#else
    const uint64_t power = (uint64_t)((int64_t)re * re) + (uint64_t)((int64_t)im * im);
    bin->word[0] = (uint32_t)power;
    bin->word[1] = (uint32_t)(power >> 32);
#endif
}

/* 2 * sqrt(re^2 + im^2): the parts with 15 bits, and a table over the upper bits of their sum of squares. */
static inline void cortado_put_size(const int16_t *roots, cortado_bin_t *bin, int32_t re, int32_t im)
{
    const uint32_t size = (uint32_t)((re ^ (re >> 31)) | (im ^ (im >> 31)));
    const int32_t over = size == 0 ? 0 : 17 - cortado_leading_zeros(size), right = cortado_max(over, 0);
    const int32_t a = re >> right, b = im >> right;
    const uint32_t squares = (uint32_t)(a * a) + (uint32_t)(b * b);
    uint32_t root = 0;
    if (squares != 0) {
        const int32_t left = cortado_leading_zeros(squares) & ~1;
        const uint32_t mantissa = squares << left;
        const uint16_t *t = (const uint16_t *)(const void *)roots + (mantissa >> 24) - 64;
        const uint32_t between = ((uint32_t)(t[1] - t[0]) * ((mantissa >> 8) & 0xFFFF)) >> 16;
        root = ((t[0] + between) << 16) >> (15 + left / 2 - right);
    }
    bin->word[0] = root;
}

static CORTADO_SELDOM void cortado_put_bin(const cortado_spectrum_t *L, cortado_bin_t *bin, int32_t re, int32_t im)
{
    if (L->power == 2) {
        cortado_put_power(bin, re, im);
    } else {
        cortado_put_size(L->roots, bin, re, im);
    }
}

/* log2 of a number from 1, with 16 fractional bits. */
static inline int32_t cortado_log2(const cortado_spectrum_t *L, uint64_t v)
{
    uint32_t high = (uint32_t)(v >> 32), low = (uint32_t)v;
    int32_t n = 63;
    if (high == 0) {
        high = low;
        low = 0;
        n = 31;
    }
    const int32_t zeros = cortado_leading_zeros(high);
    const uint32_t mantissa = zeros > 0 ? high << zeros | low >> (32 - zeros) : high;
    const uint16_t *t = (const uint16_t *)(const void *)L->logarithms + ((mantissa >> 24) & 127);
    const uint32_t between = ((uint32_t)(uint16_t)(t[1] - t[0]) * ((mantissa >> 8) & 0xFFFF)) >> 16;
    return (int32_t)((uint32_t)(n - zeros) << 16) + t[0] + (int32_t)between;
}

/* acc, or its root, times the layer's factor and 2^-right. */
static CORTADO_SELDOM int32_t cortado_scaled_band(const cortado_spectrum_t *L, uint64_t acc, int32_t right)
{
    int32_t left;
    uint64_t v;
    if (L->curve == 2) {
        const uint64_t wide = cortado_normalized(acc << (right & 1), &left);
        v = (uint64_t)cortado_root(wide) * (uint32_t)L->out_multiplier;
        right = 31 + (left + right + (right & 1)) / 2 - L->out_shift;
    } else {
        v = (cortado_normalized(acc, &left) >> 31) * (uint32_t)L->out_multiplier;
        right += left - L->out_shift;
    }
    if (right > 62) {
        v = 0;
    } else if (right > 0) {
        v = (v + ((uint64_t)1 << (right - 1))) >> right;
    }
    return v > 0x10000 ? 0x10000 : (int32_t)v;
}

static inline int32_t cortado_band_code(const cortado_spectrum_t *L, uint64_t acc, int32_t right)
{
    if (L->curve != 0) {
        return cortado_scaled_band(L, acc, right);
    }
    const int32_t log = cortado_log2(L, acc == 0 ? 1 : acc) - cortado_shl(right, 16) + L->offset;
    return cortado_requant(cortado_shl(log, 7), L->out_multiplier, L->out_shift);
}

/* The next one. */
static inline int8_t *cortado_put_band(const cortado_spectrum_t *L, int8_t *out, uint64_t acc, uint64_t floor,
                                       int32_t right)
{
    if (!L->clamped) {
        acc += floor;
    } else if (acc < floor) {
        acc = floor;
    }
    const int32_t code = cortado_clamp(cortado_band_code(L, acc, right) + L->out_zero, L->act_min, L->act_max);
    if (L->wide != 0) {
        *(int16_t *)(void *)out = (int16_t)code;
        return out + 2;
    }
    *out = (int8_t)code;
    return out + 1;
}

/* The floor that is added to each band, or its lower bound. */
static inline uint64_t cortado_floor(const cortado_spectrum_t *L, int32_t shift)
{
    const uint64_t whole = (uint64_t)(uint32_t)L->floor_high << 31 | (uint32_t)L->floor_low;
    return whole >> (L->power * (L->headroom - shift));
}

/* The sample in front of the window's, 0 in front of the signal. */
static inline int16_t cortado_sample_before(const cortado_spectrum_t *L, const int8_t *const rows[])
{
    int32_t at = L->skip - 1;
    for (; at >= L->block; at -= L->block) {
        rows++;
    }
    return *rows == NULL ? 0 : ((const int16_t *)(const void *)*rows)[at];
}

/* By how many bits numbers of 31 bits can be shifted left to 16 and 15 of a fraction, of what bits they have beside
 * their signs. */
static inline int32_t cortado_emphasis_shift(const cortado_spectrum_t *L, uint32_t bits)
{
    return cortado_min(bits == 0 ? 15 : cortado_leading_zeros(bits) - 1, L->headroom);
}

#endif /* CORTADO_SPECTRUM_H */
