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
    int inside = 0;
    for (int32_t x = 0, left = -L->pad_left; x < L->out_w; x++, left += L->stride_w) {
        inside = cortado_depthwise_point(L, rows, left, inside, taps);
        cortado_depthwise_pixel_s8__mve(&layer, out);
        out += L->in_c;
    }
}
#else
typedef int cortado_depthwise_needs_mve; /* an empty translation unit is not C */
#endif
