/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution on cores without vector instructions, two pixels per multiply. Internal.
 *
 * The inputs of two pixels share a word, x0 + x1 * 2^CORTADO_LANE. Multiplying that word by a weight multiplies both,
 * and the sums stay apart as long as the lower one fits its lane:
 *
 *   - with a long multiply, lanes of 23 bits in a 64-bit sum: 255 products fit in any case;
 *   - without, lanes of 16 bits in a 32-bit sum: 2 products fit if no weight is -128. The tile adds each such word to a
 *     running total and its upper half to a second one; the lower lane is what remains of the total.
 */
#ifndef CORTADO_PAIRS_H
#define CORTADO_PAIRS_H

#include "cortado.h"
#include "cortado_math.h"

#if CORTADO_SMALL_CORE
#define CORTADO_LANE 16
#define CORTADO_TILE_CHANNELS 1
#else
#define CORTADO_LANE 23
#define CORTADO_TILE_CHANNELS 2
#endif

/* What a block of pixels needs to know of its layer (or of one group of it). */
typedef struct {
    int32_t depth;    /* products per output */
    int32_t channels; /* output channels, out_c bytes from pixel to pixel */
    int32_t out_c;
    int32_t out_offset, act_min, act_max;
    const int8_t *weights; /* packed for the tile */
    const int32_t *bias, *multiplier, *shift;
} cortado_pairs_t;

/* Packs n values of two pixels into every step-th word. */
static inline int32_t *cortado_pairs_pack(int32_t *to, int32_t step, const int8_t *x0, const int8_t *x1, int32_t n)
{
    for (; n > 0; n--) {
        *to = *x0++ + (int32_t)((uint32_t)*x1++ << CORTADO_LANE);
        to += step;
    }
    return to;
}

/* 1 to 4 pixels: packed[k] is the one word of 1 or 2 pixels, packed[2 * k] and [2 * k + 1] are those of 3 or 4. */
void cortado_pairs_block(const cortado_pairs_t *P, const int32_t *packed, int32_t pixels, int8_t *out);

/* Sums of one tile, without bias: sums[4 * channel + pixel]. */
const int8_t *cortado_pairs_tile1(const int32_t *packed, const int8_t *weights, int32_t depth, int32_t *sums);
const int8_t *cortado_pairs_tile2(const int32_t *packed, const int8_t *weights, int32_t depth, int32_t *sums);

#endif /* CORTADO_PAIRS_H */
