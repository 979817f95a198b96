/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of layers of 16-bit codes and 8-bit weights on small cores, which have no long multiply. Internal.
 * The streams are described in conv_tile_s16__scalar.S.
 */
#ifndef CONV_TILE_S16__SCALAR_H
#define CONV_TILE_S16__SCALAR_H

#include "cortado_isa.h"

/* Members of cortado_small_tile_t, for the assembly. */
#define TILE_STREAM 0
#define TILE_DEPTH 4
#define TILE_CHANNELS 8
#define TILE_STRIDE 12 /* low and high are read with it */

#if !defined(__ASSEMBLER__)
#include "cortado.h"
#include "cortado_math.h"
#include "cortado_wide.h"

typedef struct {
    const int8_t *stream;
    int32_t depth; /* products per output, a multiple of 4 */
    int32_t channels;
    int32_t stride; /* bytes from pixel to pixel of the output */
    int32_t low, high;
} cortado_small_tile_t;

CORTADO_AT(cortado_small_tile_t, stream, TILE_STREAM);
CORTADO_AT(cortado_small_tile_t, depth, TILE_DEPTH);
CORTADO_AT(cortado_small_tile_t, channels, TILE_CHANNELS);
CORTADO_AT(cortado_small_tile_t, stride, TILE_STRIDE);
CORTADO_AT(cortado_small_tile_t, low, TILE_STRIDE + 4);
CORTADO_AT(cortado_small_tile_t, high, TILE_STRIDE + 8);

/* All channels of up to four pixels, whose codes lie in turns, one in a word. Returns the stream after the last. */
const int8_t *cortado_conv_tile4_s16__scalar(const cortado_small_tile_t *T, const int32_t *x, int32_t pixels,
                                             int16_t *out);
/* The products of three rows of weights, each every other byte, and n codes. */
void cortado_linear_three_s16__scalar(const int16_t *x, const int8_t *weights, int32_t n, int32_t sums[3]);
#endif

#endif /* CONV_TILE_S16__SCALAR_H */
