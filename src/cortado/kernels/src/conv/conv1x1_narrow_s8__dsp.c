/* SPDX-License-Identifier: Apache-2.0
 *
 * 1x1 convolution with 4-bit weights and DSP instructions: see conv_narrow_s8__dsp.h.
 *
 * Tile: 2 pixels x 4 channels. Scratch: 2 pixels unpacked, 4 bytes per input channel;
 * with factors 8 more for each run.
 */
#include "conv_narrow_s8__dsp.h"

#if defined(__ARM_FEATURE_DSP)
#include "conv_window_s8__dsp.h"

void cortado_conv1x1_narrow_s8__dsp(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                    void *scratch)
{
    const cortado_conv_tile_t tile = {L->weights,    cortado_round4(L->in_c), L->out_c, L->out_c,
                                      L->out_offset, L->act_min,              L->act_max};
    for (; pixels > 0; pixels -= 2) {
        cortado_conv_pixels(in, L->in_c, pixels, 2, scratch);
        cortado_conv_narrow_s8__dsp(&tile, scratch, pixels, out);
        in += 2 * L->in_c;
        out += 2 * L->out_c;
    }
}

void cortado_conv1x1_runs_s8__dsp(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                  void *scratch)
{
    const cortado_conv_tile_t tile = {L->weights,    cortado_narrow_filled(scratch, L->in_c), L->out_c, L->out_c,
                                      L->out_offset, L->act_min,                              L->act_max};
    for (; pixels > 0; pixels -= 2) {
        cortado_conv_pixels(in, L->in_c, pixels, 2, scratch);
        cortado_conv_runs_s8__dsp(&tile, scratch, pixels, out);
        in += 2 * L->in_c;
        out += 2 * L->out_c;
    }
}
#else
typedef int cortado_conv1x1_narrow_needs_dsp; /* an empty translation unit is not C */
#endif
