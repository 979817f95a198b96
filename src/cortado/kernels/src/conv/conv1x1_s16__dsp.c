/* SPDX-License-Identifier: Apache-2.0
 *
 * 1x1 convolution of 16-bit codes with 8-bit weights, with DSP instructions: see conv_tile_s16__dsp.h.
 *
 * Tile: 2 pixels x 4 channels, an odd last one alone. Scratch: 2 pixels, 4 bytes per input channel; none for one pixel.
 */
#include "conv_tile_s16__dsp.h"

#if defined(__ARM_FEATURE_DSP)

void cortado_conv1x1_s16__dsp(const cortado_layer_s16_packed_t *L, const int16_t *in, int16_t *out, int32_t pixels,
                              void *scratch)
{
    const cortado_wide_tile_t tile = {L->weights, L->in_c, L->out_c, 2 * L->out_c, L->act_min, L->act_max};
    int32_t *const x = scratch;
    for (; pixels > 1; pixels -= 2) {
        (void)cortado_in_turns(x, in, L->in_c);
        (void)cortado_in_turns(x + 1, in + L->in_c, L->in_c);
        (void)cortado_conv_tile2_s16__dsp(&tile, x, out);
        in += 2 * L->in_c;
        out += 2 * L->out_c;
    }
    if (pixels > 0) {
        (void)cortado_conv_tile1_s16__dsp(&tile, in, out);
    }
}
#else
typedef int cortado_conv1x1_s16_needs_dsp; /* an empty translation unit is not C */
#endif
