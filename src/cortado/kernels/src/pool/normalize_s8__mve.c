/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalization by the mean and variance of a group of channels with vector instructions: groups of one pixel's
 * channels or of whole planes, which are one run of bytes, and of the channels of several pixels, a run of each.
 *
 * Tile: 4 elements. Scratch: none.
 */
#include "cortado_normalize.h"
#include "normalize_runs_s8__mve.h"

#if defined(__ARM_FEATURE_MVE)

/* What one run adds to the sums of its group. */
static void add_run(const int8_t *in, int32_t n, int32_t *sum, uint64_t *squares)
{
    while (n > 0) {
        const int32_t part = cortado_min(n, 1 << 16); /* squares that fit 32 bits */
        int32_t sums[2];
        sums[0] = *sum;
        sums[1] = 0;
        cortado_normalize_sums_s8__mve(in, part, sums);
        *sum = sums[0];
        *squares += (uint32_t)sums[1];
        in += part;
        n -= part;
    }
}

void cortado_normalize_s8__mve(const cortado_normalize_t *L, const int8_t *in, int8_t *out, int32_t samples)
{
    const int32_t channels = L->channels, pixels = L->pixels, all = channels * L->groups;
    /* A group is `runs` runs of `length` bytes; where channels lie behind each other, one. */
    const int32_t apart = L->channel_stride == 1 && pixels > 1;
    const int32_t runs = apart ? pixels : 1, length = apart ? channels : channels * pixels;
    /* Of outputs, a run has one scale, or one for each of its elements. */
    const int32_t planes = !apart && pixels > 1 && L->by_channel ? channels : 1, plane = length / planes;
    cortado_normalize_run_t R; /* filled field by field: an initializer may become a call */
    R.right = -L->fraction_bits;
    R.low = L->act_min;
    R.high = L->act_max;
    R.several = planes == 1 && L->by_channel;
    for (; samples > 0; samples--, in += all * pixels, out += all * pixels) {
        for (int32_t first = 0; first < all; first += channels) {
            const int32_t start = first * L->channel_stride;
            int32_t sum = 0;
            uint64_t squares = 0;
            for (int32_t i = 0; i < runs; i++) {
                add_run(in + start + i * all, length, &sum, &squares);
            }
            const cortado_group_t group = cortado_group(L, channels * pixels, sum, squares);
            R.step = group.step;
            R.minus_middle = 0u - group.middle;
            R.root = group.root;
            R.scale = L->scale + first * L->by_channel;
            R.offset = L->offset + first * L->by_channel;
            for (int32_t i = 0; i < runs * planes; i++) {
                const int32_t at = start + i * (apart ? all : plane);
                cortado_normalize_run_s8__mve(&R, in + at, out + at, plane);
                R.scale += planes > 1;
                R.offset += planes > 1;
            }
        }
    }
}
#else
typedef int cortado_normalize_needs_mve; /* an empty translation unit is not C */
#endif
