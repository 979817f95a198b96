/* SPDX-License-Identifier: Apache-2.0
 *
 * Maximum pooling, one output row: per pixel, per channel, over the window inside the image.
 *
 * Tile: 1 pixel x 1 channel. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

void cortado_max_pool2d_s8(const cortado_pool2d_t *L, const int8_t *const rows[], int8_t *out)
{
    const int32_t channels = L->channels, dilation = L->dilation_w;
    int32_t left = -L->pad_left;
    for (int32_t x = L->out_w; x > 0; x--) {
        /* The taps first .. last - 1 are inside the row. */
        const int32_t first = left < 0 ? (dilation - 1 - left) / dilation : 0;
        const int32_t last = cortado_min((L->in_w - left + dilation - 1) / dilation, L->kernel_w);
        for (int32_t c = 0; c < channels; c++) {
            int32_t largest = L->act_min;
            for (int32_t ky = 0; ky < L->kernel_h; ky++) {
                if (rows[ky] != NULL) {
                    const int8_t *p = rows[ky] + (left + first * dilation) * channels + c;
                    for (int32_t kx = last - first; kx > 0; kx--) {
                        largest = cortado_max(largest, *p);
                        p += dilation * channels;
                    }
                }
            }
            *out++ = (int8_t)cortado_min(largest, L->act_max);
        }
        left += L->stride_w;
    }
}
