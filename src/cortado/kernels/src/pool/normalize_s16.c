/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalization of 16-bit codes by the mean and variance of a group of channels.
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

/* Constants of one group: deviation = ((q * count - middle) << up) >> down, which fits 31 bits. */
typedef struct {
    int64_t middle;
    int32_t count, up, down, root;
} group_t;

typedef struct {
    int32_t sum; /* of at most 2^16 codes */
    uint64_t squares;
} sums_t;

static sums_t add_up(sums_t sums, const int16_t *in, int32_t n, int32_t stride)
{
    for (; n > 0; n--, in += stride) {
        const int32_t q = *in;
        sums.sum += q;
        sums.squares += (uint32_t)(q * q);
    }
    return sums;
}

static group_t group_of(const cortado_normalize_t *L, int32_t count, sums_t sums)
{
    const int64_t middle = L->centered ? sums.sum : 0;
    uint64_t variance = (uint64_t)count * sums.squares - (uint64_t)(middle * middle);
    variance = L->variance_shift < 0 ? variance >> -L->variance_shift : variance << L->variance_shift;
    variance += ((uint64_t)(uint32_t)L->epsilon_high << 31) + (uint32_t)L->epsilon_low;
    group_t group = {0, 0, 0, 0, 0};
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
    group.middle = middle;
    group.count = count;
    group.up = cortado_clamp(left, 0, 30); /* beyond 30 there is no deviation */
    group.down = cortado_clamp(-left, 0, 62);
    group.root = inverse_root((int32_t)(variance >> 1));
    return group;
}

static inline int16_t normalized(int32_t q, const group_t *group, int32_t factor, int32_t offset,
                                 const cortado_normalize_t *L)
{
    const int64_t apart = (int64_t)q * group->count - group->middle;
    const int32_t deviation = (int32_t)((int64_t)((uint64_t)apart << group->up) >> group->down);
    const int32_t v = (cortado_mul_high(deviation, factor) + offset) >> L->fraction_bits;
    return (int16_t)cortado_clamp(v, L->act_min, L->act_max);
}

/* A group that is one pixel: its channels lie side by side. */
static void one_pixel(const cortado_normalize_t *L, const int16_t *in, int16_t *out)
{
    const sums_t none = {0, 0};
    const group_t group = group_of(L, L->channels, add_up(none, in, L->channels, 1));
    for (int32_t c = 0; c < L->channels; c++) {
        const int32_t one = c * L->by_channel;
        out[c] = normalized(in[c], &group, cortado_mul_high(L->scale[one], group.root), L->offset[one], L);
    }
}

static void one_channel(const cortado_normalize_t *L, const int16_t *in, int16_t *out, const group_t *group,
                        int32_t scale, int32_t offset)
{
    const int32_t factor = cortado_mul_high(scale, group->root);
    for (int32_t n = L->pixels; n > 0; n--, in += L->pixel_stride, out += L->pixel_stride) {
        *out = normalized(*in, group, factor, offset, L);
    }
}

void cortado_normalize_s16(const cortado_normalize_t *L, const int16_t *in, int16_t *out, int32_t samples)
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
            const group_t group = group_of(L, channels * pixels, sums);
            for (int32_t c = first; c < first + channels; c++) {
                const int32_t at = c * L->channel_stride, one = c * L->by_channel;
                one_channel(L, in + at, out + at, &group, L->scale[one], L->offset[one]);
            }
        }
    }
}
