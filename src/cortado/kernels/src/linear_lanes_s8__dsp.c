/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear layers with DSP instructions, without weights of -128: see linear_pixel_s8__dsp.h.
 *
 * Tile: 1 pixel x 4 channels. Scratch: none.
 */
#include "linear_pixel_s8__dsp.h"

#if defined(__ARM_FEATURE_DSP)

void cortado_linear_lanes_s8__dsp(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                  void *scratch)
{
    const cortado_conv_tile_t tile = {L->weights,    L->in_c,    L->out_c,  0,
                                      L->out_offset, L->act_min, L->act_max};
    (void)scratch;
    for (; pixels > 0; pixels--, in += L->in_c, out += L->out_c) {
        cortado_linear_pixel_s8__dsp(&tile, in, out);
    }
}
#else
typedef int cortado_linear_lanes_needs_dsp; /* an empty translation unit is not C */
#endif
