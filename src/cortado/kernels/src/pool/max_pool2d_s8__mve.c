/* SPDX-License-Identifier: Apache-2.0
 *
 * Maximum pooling with vector instructions: sixteen channels at a time.
 *
 * Tile: 1 pixel x 16 channels. Scratch: none.
 */
#include "pool16_s8__mve.h"

#if defined(__ARM_FEATURE_MVE)

void cortado_max_pool2d_s8__mve(const cortado_pool2d_t *L, const int8_t *const rows[], int8_t *out)
{
    const int32_t channels = L->channels, dilation = L->dilation_w, stride = L->stride_w;
    const int32_t reach = (L->kernel_w - 1) * dilation;
    const cortado_pool16_max_t pool = {rows,     L->kernel_h, dilation * channels, stride * channels,
                                       channels, L->act_min,  L->act_max};
    int32_t left = -L->pad_left, pixels;
    for (int32_t x = L->out_w; x > 0; x -= pixels) {
        int32_t first = 0, taps = L->kernel_w;
        pixels = 1;
        if (left >= 0 && left + reach < L->in_w) {
            pixels = cortado_min(x, (L->in_w - 1 - reach - left) / stride + 1);
        } else {
            /* The taps first .. first + taps - 1 are inside the row. */
            first = left < 0 ? (dilation - 1 - left) / dilation : 0;
            taps = cortado_min((L->in_w - left + dilation - 1) / dilation, L->kernel_w) - first;
        }
        cortado_pool16_max_s8__mve(&pool, out, (left + first * dilation) * channels, cortado_max(taps, 0), pixels);
        out += pixels * channels;
        left += pixels * stride;
    }
}
#else
typedef int cortado_max_pool2d_needs_mve; /* an empty translation unit is not C */
#endif
