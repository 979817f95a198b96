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
    const int32_t channels = L->channels, dilation = L->dilation_w;
    int32_t left = -L->pad_left;
    for (int32_t x = L->out_w; x > 0; x--, left += L->stride_w, out += channels) {
        /* The taps first .. last - 1 are inside the row. */
        const int32_t first = left < 0 ? (dilation - 1 - left) / dilation : 0;
        const int32_t last = cortado_min((L->in_w - left + dilation - 1) / dilation, L->kernel_w);
        for (int32_t c = 0; c < channels; c++) {
            out[c] = (int8_t)L->act_min;
        }
        for (int32_t ky = 0; ky < L->kernel_h && first < last; ky++) {
            for (int32_t c = 0; rows[ky] != NULL && c < channels; c += 16) {
                const int8_t *in = rows[ky] + (left + first * dilation) * channels + c;
                cortado_pool16_max_s8__mve(out + c, in, dilation * channels, last - first, channels - c);
            }
        }
        for (int32_t c = 0; c < channels && L->act_max < 127; c++) {
            out[c] = (int8_t)cortado_min(out[c], L->act_max);
        }
    }
}
#else
typedef int cortado_max_pool2d_needs_mve; /* an empty translation unit is not C */
#endif
