/* SPDX-License-Identifier: Apache-2.0
 *
 * All output channels of up to four packed pixels.
 */
#include "cortado_pairs.h"

/* The longest run of products whose lower lane fits; a multiple of 4. */
#define RUN 252

/* All products of one tile, run by run. Leaves its sums in `total`. */
static const int8_t *add_runs(const int32_t *packed, int32_t pairs, const int8_t *weights, int32_t depth,
                              int32_t *total)
{
    int32_t sums[4 * CORTADO_TILE_CHANNELS];
    int32_t *to = total;
    do {
        const int32_t n = cortado_min(depth, RUN);
        weights = pairs == 1 ? cortado_pairs_tile1(packed, weights, n, to) : cortado_pairs_tile2(packed, weights, n, to);
        for (int32_t i = 0; to == sums && i < 4 * CORTADO_TILE_CHANNELS; i++) {
            total[i] += sums[i];
        }
        to = sums;
        packed += n * pairs;
        depth -= n;
    } while (depth > 0);
    return weights;
}

void cortado_pairs_block(const cortado_pairs_t *P, const int32_t *packed, int32_t pixels, int8_t *out)
{
    const int32_t depth = (P->depth + 3) & ~3, pairs = pixels > 2 ? 2 : 1;
    const int8_t *weights = P->weights;
    for (int32_t oc = 0; oc < P->channels;) {
        int32_t total[4 * CORTADO_TILE_CHANNELS] = {0};
        weights = add_runs(packed, pairs, weights, depth, total);
        for (int32_t i = 0; i < CORTADO_TILE_CHANNELS && oc < P->channels; i++, oc++) {
            const cortado_factor_t factor = cortado_factor(P->multiplier[oc], P->shift[oc]);
            const int32_t bias = P->bias[oc];
            int8_t *to = out + oc;
            for (int32_t pixel = 0; pixel < pixels; pixel++) {
                int32_t v = cortado_scale(total[4 * i + pixel] + bias, factor) + P->out_offset;
                *to = (int8_t)cortado_clamp(v, P->act_min, P->act_max);
                to += P->out_c;
            }
        }
    }
}
