/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalization by the mean and variance of a group of channels.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

/* 1 / (2 * sqrt(a)) with 30 fractional bits, for a in [1/4, 1) with 31: a line within 9%, then three Newton steps. */
static int32_t inverse_root(int32_t a)
{
    int32_t root = 1145682526 - cortado_mul_high(a, 654982513);
    for (int i = 0; i < 3; i++) {
        const int32_t quarter = cortado_mul_high(cortado_mul_high(root, root), a); /* a * root^2, 29 fractional bits */
        root = cortado_mul_high(root, (3 << 29) - (quarter << 2)) << 1;
    }
    return cortado_min(root, (1 << 30) - 1);
}

/* high(a * b), one of them doubled before on cores with a long multiply: its high word is then rounded alike. */
#define DOUBLED (CORTADO_SMALL_CORE ? 0 : 1)

static inline int32_t high(int32_t a, int32_t b)
{
#if CORTADO_SMALL_CORE
    return cortado_mul_high(a, b);
#elif defined(__ARM_FEATURE_DSP)
    int32_t v;
    __asm__("smmulr %0, %1, %2" : "=r"(v) : "r"(a), "r"(b));
    return v;
#else
    return (int32_t)(((int64_t)a * b + 0x80000000) >> 32);
#endif
}

/* Constants of one group: deviation = q * step - middle modulo 2^32, which fits 31 bits. */
typedef struct {
    uint32_t step, middle;
    int32_t root;
} group_t;

static group_t group_of(const cortado_normalize_t *L, int32_t count, int32_t sum, uint64_t squares)
{
    const int32_t middle = L->centered ? sum : count * L->in_zero;
    const int64_t n = count, total = sum, apart = (int64_t)sum - middle;
    uint64_t variance = (uint64_t)n * squares - (uint64_t)(total * total) + (uint64_t)(apart * apart);
    variance = L->variance_shift < 0 ? variance >> -L->variance_shift : variance << L->variance_shift;
    variance += ((uint64_t)(uint32_t)L->epsilon_high << 31) + (uint32_t)L->epsilon_low;
    group_t group = {0, 0, 0};
    if (variance == 0) { /* then every deviation is 0 */
        return group;
    }
    int32_t left = L->exponent;
    for (; variance >> 32 != 0; variance >>= 2) {
        left--;
    }
    for (; variance < 1u << 30; variance <<= 2) {
        left++;
    }
    group.root = (inverse_root((int32_t)(variance >> 1)) >> cortado_max(-left, 0)) << DOUBLED;
    left = cortado_clamp(left, 0, 30) + DOUBLED; /* beyond 30 there is no deviation */
    group.step = (uint32_t)count << left;
    group.middle = (uint32_t)middle << left;
    return group;
}

typedef struct {
    int32_t sum;
    uint64_t squares;
} sums_t;

static sums_t add_up(sums_t sums, const int8_t *in, int32_t n, int32_t stride)
{
    for (; n > 0; n--, in += stride) {
        const int32_t q = *in;
        sums.sum += q;
        sums.squares += (uint32_t)(q * q);
    }
    return sums;
}

static inline int8_t normalized(int32_t q, group_t group, int32_t factor, int32_t offset, const cortado_normalize_t *L)
{
    const int32_t deviation = (int32_t)((uint32_t)q * group.step - group.middle);
    return (int8_t)cortado_clamp((high(deviation, factor) + offset) >> L->fraction_bits, L->act_min, L->act_max);
}

/* A group that is one pixel: its channels lie side by side. */
static void one_pixel(const cortado_normalize_t *L, const int8_t *in, int8_t *out)
{
    const sums_t none = {0, 0}, sums = add_up(none, in, L->channels, 1);
    const group_t group = group_of(L, L->channels, sums.sum, sums.squares);
    const cortado_normalize_t l = *L; /* stores can't change a copy */
    const int32_t *scale = l.scale, *offset = l.offset;
    for (const int8_t *end = in + l.channels; in < end; scale += l.by_channel, offset += l.by_channel) {
        *out++ = normalized(*in++, group, high(*scale, group.root), *offset, &l);
    }
}

static void one_channel(const cortado_normalize_t *L, const int8_t *in, int8_t *out, group_t group, int32_t scale,
                        int32_t offset)
{
    const int32_t factor = high(scale, group.root);
    const cortado_normalize_t l = *L;
    for (int32_t n = l.pixels; n > 0; n--, in += l.pixel_stride, out += l.pixel_stride) {
        *out = normalized(*in, group, factor, offset, &l);
    }
}

void cortado_normalize_s8(const cortado_normalize_t *L, const int8_t *in, int8_t *out, int32_t samples)
{
    const int32_t channels = L->channels, pixels = L->pixels, all = channels * L->groups;
    if (all == channels && pixels == 1) {
        for (; samples > 0; samples--, in += channels, out += channels) {
            one_pixel(L, in, out);
        }
        return;
    }
    for (; samples > 0; samples--, in += all * pixels, out += all * pixels) {
        for (int32_t first = 0; first < all; first += channels) {
            sums_t sums = {0, 0};
            for (int32_t c = first; c < first + channels; c++) {
                sums = add_up(sums, in + c * L->channel_stride, pixels, L->pixel_stride);
            }
            const group_t group = group_of(L, channels * pixels, sums.sum, sums.squares);
            for (int32_t c = first; c < first + channels; c++) {
                const int32_t at = c * L->channel_stride, one = c * L->by_channel;
                one_channel(L, in + at, out + at, group, L->scale[one], L->offset[one]);
            }
        }
    }
}
