/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixels by tiles of cortado_codes_f32.h. Internal. The file that includes this one defines before it:
 *
 *   static void cortado_tile8(const cortado_tile_f32_t *T)      8 channels of one pixel
 *   static void cortado_tile8x2(const cortado_tile_f32_t *T)    8 of two
 */
#ifndef CORTADO_CODE_PIXELS_F32_H
#define CORTADO_CODE_PIXELS_F32_H

#include "cortado_codes_f32.h"

/* All channels of one pixel, or of the window of one. */
static inline void cortado_pixel_f32(const cortado_layer_f32_packed_t *L, const float *x, int32_t size, float *out)
{
    cortado_tile_f32_t T = {L->weights, x, x, size, 8, out, out, 8, L->act_min, L->act_max};
    for (int32_t left = L->out_c; left > 0; left -= 8, T.block += 16 + 2 * size, T.out0 += 8) {
        T.channels = cortado_min(left, 8);
        cortado_tile8(&T);
    }
}

/* Those of two, whose outputs lie one behind the other. */
static inline void cortado_pixels_f32(const cortado_layer_f32_packed_t *L, const float *x0, const float *x1,
                                      int32_t size, float *out)
{
    cortado_tile_f32_t T = {L->weights, x0, x1, size, 8, out, out + L->out_c, 8, L->act_min, L->act_max};
    for (int32_t left = L->out_c; left > 0; left -= 8, T.block += 16 + 2 * size, T.out0 += 8, T.out1 += 8) {
        T.channels = cortado_min(left, 8);
        cortado_tile8x2(&T);
    }
}

#endif /* CORTADO_CODE_PIXELS_F32_H */
