/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution with vector instructions (MVE). Internal.
 *
 * Four output channels at a time. The stream has, for each four: the weights, sixteen products of each channel in turn,
 * then what is left of each; their biases; their multipliers; their shifts, which are to the right. Channels that make a
 * four whole are zeros.
 */
#ifndef CONV_TILE_S8__MVE_H
#define CONV_TILE_S8__MVE_H

#include "cortado.h"
#include "cortado_math.h"

/* conv_tile_s8__mve.S knows these offsets. */
typedef struct {
    const int8_t *stream;
    int32_t blocks, rest; /* sixteens of products, and those left */
    int32_t channels;
    int32_t offset, low, high;
} cortado_conv_tile_mve_t;

/* A layer's descriptor; `size` products per output. */
static inline cortado_conv_tile_mve_t cortado_conv_tile_mve(const int8_t *weights, int32_t size, int32_t channels, int32_t offset,
                                              int32_t low, int32_t high)
{
    const cortado_conv_tile_mve_t layer = {weights, size >> 4, size & 15, channels, offset, low, high};
    return layer;
}

/* All output channels of one pixel; of two. Return the stream after them. */
const int8_t *cortado_conv_tile1_s8__mve(const cortado_conv_tile_mve_t *M, const int8_t *x, int8_t *out);
const int8_t *cortado_conv_tile2_s8__mve(const cortado_conv_tile_mve_t *M, const int8_t *x0, const int8_t *x1, int8_t *out0, int8_t *out1);

#endif /* CONV_TILE_S8__MVE_H */
