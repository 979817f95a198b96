/* SPDX-License-Identifier: Apache-2.0
 *
 * 1x1 convolution and linear layers with 4-bit weights and vector instructions: see conv_narrow_s8__mve.h.
 *
 * Tile: 2 pixels x 4 channels. Scratch: none.
 */
#include "conv_narrow_s8__mve.h"

#if defined(__ARM_FEATURE_MVE)

void cortado_conv1x1_narrow_s8__mve(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                    void *scratch)
{
    const cortado_conv_tile_mve_t layer =
        cortado_conv_tile_mve(L->weights, L->in_c, L->out_c, L->out_offset, L->act_min, L->act_max);
    const int32_t pairs = layer.blocks > 0 ? pixels / 2 : 0;
    (void)scratch;
    if (pairs > 0) {
        cortado_conv_narrow2_s8__mve(&layer, in, out, pairs);
        in += 2 * pairs * L->in_c;
        out += 2 * pairs * L->out_c;
    }
    for (pixels -= 2 * pairs; pixels > 0; pixels--) {
        cortado_conv_narrow1_s8__mve(&layer, in, out);
        in += L->in_c;
        out += L->out_c;
    }
}

void cortado_conv1x1_runs_s8__mve(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                  void *scratch)
{
    const cortado_conv_tile_mve_t layer =
        cortado_conv_tile_mve(L->weights, L->in_c, L->out_c, L->out_offset, L->act_min, L->act_max);
    (void)scratch;
    for (; pixels >= 2; pixels -= 2) {
        cortado_conv_runs2_s8__mve(&layer, in, out);
        in += 2 * L->in_c;
        out += 2 * L->out_c;
    }
    if (pixels != 0) {
        cortado_conv_runs1_s8__mve(&layer, in, out);
    }
}
#else
typedef int cortado_conv1x1_narrow_needs_mve; /* an empty translation unit is not C */
#endif
