/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixels by tiles of cortado_sums_f32.h. Internal. The file that includes this one defines before it:
 *
 *   static void cortado_tile16(const cortado_tile_f32_t *T)     16 channels of one pixel
 *   static void cortado_tile8(const cortado_tile_f32_t *T)      8 of one
 *   static void cortado_tile8x2(const cortado_tile_f32_t *T)    8 of two
 */
#ifndef CORTADO_PIXELS_F32_H
#define CORTADO_PIXELS_F32_H

#include "cortado_sums_f32.h"

/* All channels of one pixel, or of the window of one. */
static inline void cortado_pixel_f32(const cortado_layer_f32_packed_t *L, const float *x, int32_t size, float *out)
{
    cortado_tile_f32_t T = {L->weights, x, x, size, 64, out, out, 16, L->act_min, L->act_max};
    int32_t left = L->out_c;
    for (; left > 8; left -= 16) {
        T.channels = cortado_min(left, 16);
        cortado_tile16(&T);
        T.block += 16 * (size + 1);
        T.out0 += 16;
    }
    if (left > 0) {
        T.step = 32;
        T.channels = left;
        cortado_tile8(&T);
    }
}

/* Those of two, whose outputs lie one behind the other. */
static inline void cortado_pixels_f32(const cortado_layer_f32_packed_t *L, const float *x0, const float *x1,
                                      int32_t size, float *out)
{
    cortado_tile_f32_t T = {L->weights, x0, x1, size, 64, out, out + L->out_c, 8, L->act_min, L->act_max};
    int32_t left = L->out_c, half = 0;
    for (; left > 0; left -= 8, half ^= 8) {
        T.step = left > 8 || half != 0 ? 64 : 32;
        T.channels = cortado_min(left, 8);
        cortado_tile8x2(&T);
        T.block += half == 0 ? 8 : 16 * size + 8;
        T.out0 += 8;
        T.out1 += 8;
    }
}

#endif /* CORTADO_PIXELS_F32_H */
