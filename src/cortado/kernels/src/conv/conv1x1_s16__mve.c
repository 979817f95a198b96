/* SPDX-License-Identifier: Apache-2.0
 *
 * 1x1 convolution and linear layers of 16-bit codes with 8-bit weights, with vector instructions: see
 * conv_tile_s16__mve.h.
 *
 * Tile: 2 pixels x 4 channels, an odd last one alone. Scratch: none.
 */
#include "conv_tile_s16__mve.h"

#if defined(__ARM_FEATURE_MVE)

void cortado_conv1x1_s16__mve(const cortado_layer_s16_packed_t *L, const int16_t *in, int16_t *out, int32_t pixels,
                              void *scratch)
{
    const cortado_wide_tile_mve_t tile = cortado_wide_tile_mve(L, L->in_c);
    (void)scratch;
    for (; pixels > 1; pixels -= 2) {
        (void)cortado_conv_tile2_s16__mve(&tile, in, in + L->in_c, out, out + L->out_c);
        in += 2 * L->in_c;
        out += 2 * L->out_c;
    }
    if (pixels > 0) {
        (void)cortado_conv_tile1_s16__mve(&tile, in, out);
    }
}
#else
typedef int cortado_conv1x1_s16_needs_mve; /* an empty translation unit is not C */
#endif
