/* SPDX-License-Identifier: Apache-2.0
 *
 * 1x1 convolution of at most sixteen input channels with vector instructions, to at least four output channels: see
 * conv_shallow_s8__mve.h.
 *
 * Tile: 2 pixels x 4 channels. Scratch: none.
 */
#include "conv_shallow_s8__mve.h"

#if defined(__ARM_FEATURE_MVE)

void cortado_conv1x1_shallow_s8__mve(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                     void *scratch)
{
    const int alone = pixels == 1; /* then it is both pixels of a pair */
    cortado_conv_shallow_t layer;  /* filled field by field: an initializer may become a call */
    (void)scratch;
    layer.stream = L->weights;
    layer.depth = L->in_c;
    layer.offset = L->out_offset;
    layer.low = L->act_min;
    layer.high = L->act_max;
    layer.channels = L->out_c;
    layer.x = in;
    layer.out = out;
    layer.pairs = alone ? 1 : pixels >> 1;
    layer.odd = alone ? 0 : pixels & 1;
    layer.step = alone ? 0 : L->in_c;
    layer.out_step = alone ? 0 : L->out_c;
    cortado_conv_shallow_s8__mve(&layer);
}
#else
typedef int cortado_conv1x1_shallow_needs_mve; /* an empty translation unit is not C */
#endif
