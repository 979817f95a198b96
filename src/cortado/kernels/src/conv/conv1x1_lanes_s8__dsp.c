/* SPDX-License-Identifier: Apache-2.0
 *
 * 1x1 convolution with DSP instructions where every sum fits 24 bits: see conv_lanes_s8__dsp.h.
 *
 * Tile: 2 pixels x 4 channels, an odd last one alone. Scratch: 2 pixels unpacked, 4 bytes per input channel.
 */
#include "conv_lanes_s8__dsp.h"

#if defined(__ARM_FEATURE_DSP)
#include "conv_window_s8__dsp.h"

void cortado_conv1x1_lanes_s8__dsp(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                   void *scratch)
{
    const cortado_conv_tile_t tile = {L->weights,    cortado_round4(L->in_c), L->out_c, L->out_c,
                                      L->out_offset, L->act_min,              L->act_max};
    for (; pixels > 0; pixels -= 2) {
        cortado_conv_pixels(in, L->in_c, pixels, cortado_min(pixels, 2), scratch);
        (void)cortado_conv_lanes_s8__dsp(&tile, scratch, pixels, out);
        in += 2 * L->in_c;
        out += 2 * L->out_c;
    }
}
#else
typedef int cortado_conv1x1_lanes_needs_dsp; /* an empty translation unit is not C */
#endif
