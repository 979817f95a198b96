/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolution of 16-bit codes with 8-bit weights on small cores: see depthwise_pixel_s16.h.
 *
 * Tile: 1 pixel x 4 channels. Scratch: a pointer per tap.
 */
#include "depthwise_pixel_s16.h"

#if defined(__thumb__) && CORTADO_SMALL_CORE

void cortado_depthwise_s16__scalar(const cortado_layer_s16_packed_t *L, const int8_t *const rows[], int16_t *out,
                                   void *scratch)
{
    const int16_t **const taps = scratch;
    const cortado_wide_pixel_t pixel = {
        (const int16_t *const *)taps, L->weights, L->kernel_h * L->kernel_w, L->in_c, L->act_min, L->act_max,
    };
    int inside = 0;
    for (int32_t x = 0, left = -L->pad_left; x < L->out_w; x++, left += L->stride_w, out += L->in_c) {
        inside = cortado_wide_point(L, rows, left, inside, taps);
        cortado_depthwise_pixel_s16__scalar(&pixel, out);
    }
}
#else
typedef int cortado_depthwise_s16_needs_a_small_core; /* an empty translation unit is not C */
#endif
