/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of convolution of 16-bit codes with 8-bit weights, with vector instructions: all output channels of
 * one pixel or two. Internal. The stream is described in conv_tile_s16__mve.S.
 */
#ifndef CONV_TILE_S16__MVE_H
#define CONV_TILE_S16__MVE_H

/* Members of cortado_wide_tile_mve_t: the assembly reads all of them at once. */
#define WIDE_TILE_STREAM 0

#if !defined(__ASSEMBLER__)
#include "cortado.h"
#include "cortado_math.h"

typedef struct {
    const int8_t *stream;
    int32_t turns, rest; /* of sixteen products per output, and products behind them */
    int32_t channels;
    int32_t low, high;
} cortado_wide_tile_mve_t;

CORTADO_AT(cortado_wide_tile_mve_t, stream, WIDE_TILE_STREAM);
CORTADO_AT(cortado_wide_tile_mve_t, turns, WIDE_TILE_STREAM + 4);
CORTADO_AT(cortado_wide_tile_mve_t, rest, WIDE_TILE_STREAM + 8);
CORTADO_AT(cortado_wide_tile_mve_t, channels, WIDE_TILE_STREAM + 12);
CORTADO_AT(cortado_wide_tile_mve_t, low, WIDE_TILE_STREAM + 16);
CORTADO_AT(cortado_wide_tile_mve_t, high, WIDE_TILE_STREAM + 20);

static inline cortado_wide_tile_mve_t cortado_wide_tile_mve(const cortado_layer_s16_packed_t *L, int32_t size)
{
    const cortado_wide_tile_mve_t tile = {L->weights,           size / 16,  size % 16,
                                          L->out_c / L->groups, L->act_min, L->act_max};
    return tile;
}

/* Return the stream after the last channel. */
const int8_t *cortado_conv_tile1_s16__mve(const cortado_wide_tile_mve_t *T, const int16_t *x, int16_t *out);
const int8_t *cortado_conv_tile2_s16__mve(const cortado_wide_tile_mve_t *T, const int16_t *x0, const int16_t *x1,
                                          int16_t *out0, int16_t *out1);
#endif

#endif /* CONV_TILE_S16__MVE_H */
