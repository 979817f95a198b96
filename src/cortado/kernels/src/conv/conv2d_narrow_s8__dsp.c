/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution with 4-bit weights and DSP instructions: see conv_narrow_s8__dsp.h.
 *
 * Tile: 2 pixels x 4 channels. Scratch: 2 windows unpacked, 4 bytes per product; taps that are no multiple of 4 need a
 * window of bytes more, and factors 8 bytes for each run.
 */
#include "conv_narrow_s8__dsp.h"

#if defined(__ARM_FEATURE_DSP)
#include "conv_window_s8__dsp.h"

void cortado_conv2d_narrow_s8__dsp(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                   void *scratch)
{
    const cortado_conv_source_t source = cortado_conv_source(L, rows);
    const int32_t size = L->kernel_h * L->kernel_w * L->in_c;
    const cortado_conv_tile_t tile = {L->weights,    cortado_round4(size), L->out_c, L->out_c,
                                      L->out_offset, L->act_min,           L->act_max};
    for (int32_t x = 0; x < L->out_w; x += 2) {
        cortado_conv_windows(&source, x * L->stride_w - L->pad_left, L->out_w - x, 2, size, scratch);
        cortado_conv_narrow_s8__dsp(&tile, scratch, L->out_w - x, out + x * L->out_c);
    }
}

void cortado_conv2d_runs_s8__dsp(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                 void *scratch)
{
    const cortado_conv_source_t source = cortado_conv_source(L, rows);
    const int32_t size = L->kernel_h * L->kernel_w * L->in_c;
    cortado_conv_tile_t tile = {L->weights, 0, L->out_c, L->out_c, L->out_offset, L->act_min, L->act_max};
    for (int32_t x = 0; x < L->out_w; x += 2) {
        cortado_conv_windows(&source, x * L->stride_w - L->pad_left, L->out_w - x, 2, size, scratch);
        tile.depth = cortado_narrow_filled(scratch, size); /* where bytes of a window were */
        cortado_conv_runs_s8__dsp(&tile, scratch, L->out_w - x, out + x * L->out_c);
    }
}
#else
typedef int cortado_conv2d_narrow_needs_dsp; /* an empty translation unit is not C */
#endif
