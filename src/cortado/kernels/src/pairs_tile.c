/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of cortado_pairs.h in C, for machines that pairs_tile.S has no code for. Weights: groups of
 * CORTADO_TILE_CHANNELS channels, interleaved, each padded with zeros to a multiple of 4 (and so are the pixels).
 */
#include "cortado_pairs.h"

#if !defined(__thumb__)

static const int8_t *tile(const int32_t *packed, int32_t pairs, const int8_t *weights, int32_t depth, int32_t *sums)
{
    for (int32_t channel = 0; channel < CORTADO_TILE_CHANNELS; channel++) {
        for (int32_t pair = 0; pair < pairs; pair++) {
            int64_t low = 0, high = 0;
            for (int32_t k = 0; k < depth; k++) {
                const int32_t word = packed[k * pairs + pair], w = weights[k * CORTADO_TILE_CHANNELS + channel];
                const int32_t x0 = cortado_shl(word, 32 - CORTADO_LANE) >> (32 - CORTADO_LANE);
                low += x0 * w;
                high += ((word - x0) >> CORTADO_LANE) * w;
            }
            sums[4 * channel + 2 * pair] = (int32_t)low;
            sums[4 * channel + 2 * pair + 1] = (int32_t)high;
        }
    }
    return weights + depth * CORTADO_TILE_CHANNELS;
}

const int8_t *cortado_pairs_tile1(const int32_t *packed, const int8_t *weights, int32_t depth, int32_t *sums)
{
    return tile(packed, 1, weights, depth, sums);
}

const int8_t *cortado_pairs_tile2(const int32_t *packed, const int8_t *weights, int32_t depth, int32_t *sums)
{
    return tile(packed, 2, weights, depth, sums);
}

#else
typedef int cortado_pairs_tile_is_assembly; /* an empty translation unit is not C */
#endif
