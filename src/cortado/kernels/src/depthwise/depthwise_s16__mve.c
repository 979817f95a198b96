/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolution of 16-bit codes with 8-bit weights, with vector instructions: see depthwise_pixel_s16.h.
 *
 * Tile: 1 pixel x 8 channels. Scratch: a pointer per tap.
 */
#include "depthwise_pixel_s16.h"

#if defined(__ARM_FEATURE_MVE)

void cortado_depthwise_s16__mve(const cortado_layer_s16_packed_t *L, const int8_t *const rows[], int16_t *out,
                                void *scratch)
{
    const int16_t **const taps = scratch;
    const int32_t count = L->kernel_h * L->kernel_w;
    const cortado_wide_pixel_t pixel = {(const int16_t *const *)taps, L->weights, count, L->in_c, L->act_min,
                                        L->act_max};
    const int nine = count == 9 && L->in_c % 8 == 0;
    int inside = 0;
    for (int32_t x = 0, left = -L->pad_left; x < L->out_w; x++, left += L->stride_w, out += L->in_c) {
        inside = cortado_wide_point(L, rows, left, inside, taps);
        if (nine) {
            cortado_depthwise_nine_s16__mve(&pixel, out);
        } else {
            cortado_depthwise_pixel_s16__mve(&pixel, out);
        }
    }
}
#else
typedef int cortado_depthwise_s16_needs_mve; /* an empty translation unit is not C */
#endif
