/* SPDX-License-Identifier: Apache-2.0
 *
 * 1x1 convolution, a few pixels at a time: see conv_tile_s8__scalar_dsp.h.
 *
 * Tile: 2 pixels x 1 channel, without DSP 2 channels; on small cores 4 pixels x 1 channel. Scratch: 2 pixels unpacked,
 * 4 bytes per input channel; 8 on small cores for more than two pixels.
 */
#include "conv_tile_s8__scalar_dsp.h"

#if defined(CORTADO_LANE)

/* Lays out the pixels of a tile; copies of the last one fill an incomplete group. */
static void lay_out(const cortado_conv1x1_packed_t *L, const int8_t *in, int32_t pixels, int32_t *x)
{
    const int32_t words = pixels > 2 ? 2 : 1;
    for (int32_t i = 0; i < words; i++) {
        const int8_t *x0 = in + 2 * i * L->in_c;
        cortado_conv_tile_pack(x + i, words, x0, 2 * i + 1 < pixels ? x0 + L->in_c : x0, L->in_c);
    }
}

#else
#include "conv_window_s8__dsp.h"

static void lay_out(const cortado_conv1x1_packed_t *L, const int8_t *in, int32_t pixels, int32_t *x)
{
    cortado_conv_pixels(in, L->in_c, pixels, 2, x);
}

#endif

void CORTADO_ISA(cortado_conv1x1_s8)(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                     void *scratch)
{
    const cortado_conv_tile_t tile = {L->weights,    cortado_round4(L->in_c), L->out_c, L->out_c,
                                      L->out_offset, L->act_min,              L->act_max};
    while (pixels > 0) {
        const int32_t n = cortado_min(pixels, CORTADO_TILE_PIXELS);
        lay_out(L, in, n, scratch);
        (void)cortado_conv_tile(&tile, scratch, n, out);
        pixels -= n;
        in += n * L->in_c;
        out += n * L->out_c;
    }
}
