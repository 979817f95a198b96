/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution with DSP instructions where every sum fits 24 bits: see conv_lanes_s8__dsp.h.
 *
 * Tile: 2 pixels x 4 channels, an odd last one alone. Scratch: 2 windows unpacked, 4 bytes per product; taps that are
 * no multiple of 4 need a window of bytes more.
 */
#include "conv_lanes_s8__dsp.h"

#if defined(__ARM_FEATURE_DSP)
#include "conv_window_s8__dsp.h"

void cortado_conv2d_lanes_s8__dsp(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                  void *scratch)
{
    const int32_t channels = L->out_c / L->groups;
    cortado_conv_source_t source = cortado_conv_source(L, rows);
    const int32_t size = L->kernel_h * L->kernel_w * source.depth;
    cortado_conv_tile_t tile = {L->weights,    cortado_round4(size), channels, L->out_c,
                                L->out_offset, L->act_min,           L->act_max};
    for (int32_t group = 0; group < L->groups; group++) {
        const int8_t *next = tile.stream;
        for (int32_t x = 0; x < L->out_w; x += 2) {
            const int32_t left = x * L->stride_w - L->pad_left, pixels = cortado_min(L->out_w - x, 2);
            cortado_conv_windows(&source, left, pixels, pixels, size, scratch);
            next = cortado_conv_lanes_s8__dsp(&tile, scratch, pixels, out + x * L->out_c);
        }
        tile.stream = next;
        source.first += source.depth;
        out += channels;
    }
}
#else
typedef int cortado_conv2d_lanes_needs_dsp; /* an empty translation unit is not C */
#endif
