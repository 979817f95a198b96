/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of convolution with vector instructions (MVE): all output channels of one pixel or two, four channels
 * at a time. Internal. The stream it reads is described in conv_tile_s8__mve.S.
 */
#ifndef CONV_TILE_S8__MVE_H
#define CONV_TILE_S8__MVE_H

/* Members of cortado_conv_tile_mve_t, for the assembly. */
#define TILE_MVE_STREAM 0 /* blocks is read with it */
#define TILE_MVE_REST 8
#define TILE_MVE_CHANNELS 12 /* offset is read with it */
#define TILE_MVE_LOW 20      /* high is read with it */
#define TILE_MVE_FIRST 28    /* more is read with it */
#define TILE_MVE_LANES 36

#if !defined(__ASSEMBLER__)
#include "cortado.h"
#include "cortado_math.h"

typedef struct {
    const int8_t *stream;
    int32_t blocks, rest; /* sixteens of products, and those left */
    int32_t channels;
    int32_t offset, low, high;
    int32_t first, more; /* products of the first sixteen lanes, and whole sixteens behind them */
    int32_t lanes;       /* of the first sixteen, those that may be read */
} cortado_conv_tile_mve_t;

CORTADO_AT(cortado_conv_tile_mve_t, stream, TILE_MVE_STREAM);
CORTADO_AT(cortado_conv_tile_mve_t, blocks, TILE_MVE_STREAM + 4);
CORTADO_AT(cortado_conv_tile_mve_t, rest, TILE_MVE_REST);
CORTADO_AT(cortado_conv_tile_mve_t, channels, TILE_MVE_CHANNELS);
CORTADO_AT(cortado_conv_tile_mve_t, offset, TILE_MVE_CHANNELS + 4);
CORTADO_AT(cortado_conv_tile_mve_t, low, TILE_MVE_LOW);
CORTADO_AT(cortado_conv_tile_mve_t, high, TILE_MVE_LOW + 4);
CORTADO_AT(cortado_conv_tile_mve_t, first, TILE_MVE_FIRST);
CORTADO_AT(cortado_conv_tile_mve_t, more, TILE_MVE_FIRST + 4);
CORTADO_AT(cortado_conv_tile_mve_t, lanes, TILE_MVE_LANES);

/* A layer's descriptor; `size` products per output. */
static inline cortado_conv_tile_mve_t cortado_conv_tile_mve(const int8_t *weights, int32_t size, int32_t channels,
                                                            int32_t offset, int32_t low, int32_t high)
{
    const cortado_conv_tile_mve_t layer = {
        weights, size >> 4, size & 15, channels, offset, low, high, ((size - 1) & 15) + 1, (size - 1) >> 4,
        cortado_min(size, 16),
    };
    return layer;
}

/* All output channels of one pixel; of two. Return the stream after them. */
const int8_t *cortado_conv_tile1_s8__mve(const cortado_conv_tile_mve_t *T, const int8_t *x, int8_t *out);
const int8_t *cortado_conv_tile2_s8__mve(const cortado_conv_tile_mve_t *T, const int8_t *x0, const int8_t *x1,
                                         int8_t *out0, int8_t *out1);

#endif
#endif /* CONV_TILE_S8__MVE_H */
