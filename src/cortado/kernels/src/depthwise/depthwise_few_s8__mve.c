/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolution of fewer than sixteen channels with vector instructions: where pixels lie together like their
 * outputs, as many of them as fit a vector at a time.
 *
 * Tile: 16 / channels pixels. Scratch: a pointer per tap.
 */
#include "depthwise_pixel_s8.h"

#if defined(__ARM_FEATURE_MVE)

void cortado_depthwise_few_s8__mve(const cortado_depthwise_packed_t *L, const int8_t *const rows[], int8_t *out,
                                   void *scratch)
{
    const int8_t **const taps = scratch, **const end = taps + L->kernel_h * L->kernel_w;
    const int32_t channels = L->in_c, reach = (L->kernel_w - 1) * L->dilation_w;
    const cortado_depthwise_pixel_t layer = {L->weights,    (const int8_t *const *)taps, (const int8_t *const *)end,
                                             16 / channels * channels, L->out_offset, L->act_min, L->act_max};
    int together = L->stride_w == 1;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        together = together && rows[ky] != NULL;
    }
    for (int32_t x = 0, n; x < L->out_w; x += n) {
        const int32_t left = x * L->stride_w - L->pad_left, space = L->in_w - 1 - reach - left;
        const int8_t **to = taps;
        for (int32_t ky = 0; ky < L->kernel_h; ky++) {
            to = cortado_depthwise_point_row(L, rows[ky], left, to);
        }
        n = together && left >= 0 && space >= 0 ? cortado_min(space + 1, L->out_w - x) : 1;
        cortado_depthwise_few_pixels_s8__mve(&layer, out, n * channels);
        out += n * channels;
    }
}
#else
typedef int cortado_depthwise_few_needs_mve; /* an empty translation unit is not C */
#endif
