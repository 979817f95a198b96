/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolution with vector instructions, by pointers to taps: see depthwise_pixel_s8.h.
 *
 * Tile: 1 pixel x 16 channels. Scratch: a pointer per tap.
 */
#include "depthwise_pixel_s8.h"

#if defined(__ARM_FEATURE_MVE)

void cortado_depthwise_s8__mve(const cortado_depthwise_packed_t *L, const int8_t *const rows[], int8_t *out,
                               void *scratch)
{
    const int8_t **const taps = scratch, **const end = taps + L->kernel_h * L->kernel_w;
    const cortado_depthwise_pixel_t layer = {L->weights, (const int8_t *const *)taps, (const int8_t *const *)end,
                                             L->in_c,    L->out_offset,               L->act_min,
                                             L->act_max};
    const int32_t step = L->stride_w * L->in_c;
    /* Behind this column windows are not inside the row; where one of the rows is not, no window is. */
    int32_t last = L->in_w - 1 - (L->kernel_w - 1) * L->dilation_w, moved = 0;
    int inside = 0;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        last = rows[ky] != NULL ? last : -1;
    }
    for (int32_t x = 0, left = -L->pad_left; x < L->out_w; x++, left += L->stride_w) {
        if (inside && left <= last) {
            moved += step;
        } else {
            inside = cortado_depthwise_point(L, rows, left, inside && moved == 0, taps);
            moved = 0;
        }
        cortado_depthwise_pixel_s8__mve(&layer, out, moved);
        out += L->in_c;
    }
}
#else
typedef int cortado_depthwise_needs_mve; /* an empty translation unit is not C */
#endif
