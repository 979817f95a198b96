/* SPDX-License-Identifier: Apache-2.0
 *
 * Maximum pooling with DSP instructions: four channels at a time.
 *
 * Tile: 1 pixel x 4 channels. Scratch: none.
 */
#include "cortado.h"

#if defined(__ARM_FEATURE_DSP)
#include "cortado_dsp.h"

void cortado_max_pool2d_s8__dsp(const cortado_pool2d_t *L, const int8_t *const rows[], int8_t *out)
{
    const int32_t channels = L->channels, dilation = L->dilation_w, kernel_h = L->kernel_h;
    const int32_t low = (L->act_min & 0xFF) * 0x01010101, high = (L->act_max & 0xFF) * 0x01010101;
    int32_t left = -L->pad_left;
    for (int32_t x = L->out_w; x > 0; x--, left += L->stride_w, out += channels) {
        /* The taps first .. last - 1 are inside the row. */
        const int32_t first = left < 0 ? (dilation - 1 - left) / dilation : 0;
        const int32_t last = cortado_min((L->in_w - left + dilation - 1) / dilation, L->kernel_w);
        for (int32_t c = 0; c < channels; c = cortado_next4(c, channels)) {
            int32_t largest = low;
            for (int32_t ky = 0; ky < kernel_h; ky++) {
                if (rows[ky] != NULL) {
                    const int8_t *p = rows[ky] + (left + first * dilation) * channels + c;
                    for (int32_t kx = last - first; kx > 0; kx--) {
                        largest = cortado_max4(largest, cortado_load4(p));
                        p += dilation * channels;
                    }
                }
            }
            cortado_store4(out + c, cortado_min4(largest, high));
        }
    }
}
#else
typedef int cortado_max_pool2d_needs_dsp; /* an empty translation unit is not C */
#endif
