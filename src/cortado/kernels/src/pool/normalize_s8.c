/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalization by the mean and variance of a group of channels.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado_normalize.h"

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

static inline int8_t normalized(int32_t q, cortado_group_t group, int32_t factor, int32_t offset,
                                const cortado_normalize_t *L)
{
    const int32_t deviation = (int32_t)((uint32_t)q * group.step - group.middle);
    const int32_t v = (cortado_high(deviation, factor) + offset) >> L->fraction_bits;
    return (int8_t)cortado_clamp(v, L->act_min, L->act_max);
}

/* A group that is one pixel: its channels lie side by side. */
static void one_pixel(const cortado_normalize_t *L, const int8_t *in, int8_t *out)
{
    const sums_t none = {0, 0}, sums = add_up(none, in, L->channels, 1);
    const cortado_group_t group = cortado_group(L, L->channels, sums.sum, sums.squares);
    const cortado_normalize_t l = *L; /* stores can't change a copy */
    const int32_t *scale = l.scale, *offset = l.offset;
    for (const int8_t *end = in + l.channels; in < end; scale += l.by_channel, offset += l.by_channel) {
        *out++ = normalized(*in++, group, cortado_high(*scale, group.root), *offset, &l);
    }
}

static void one_channel(const cortado_normalize_t *L, const int8_t *in, int8_t *out, cortado_group_t group,
                        int32_t scale, int32_t offset)
{
    const int32_t factor = cortado_high(scale, group.root);
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
            const cortado_group_t group = cortado_group(L, channels * pixels, sums.sum, sums.squares);
            for (int32_t c = first; c < first + channels; c++) {
                const int32_t at = c * L->channel_stride, one = c * L->by_channel;
                one_channel(L, in + at, out + at, group, L->scale[one], L->offset[one]);
            }
        }
    }
}
