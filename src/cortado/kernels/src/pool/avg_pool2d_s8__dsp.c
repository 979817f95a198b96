/* SPDX-License-Identifier: Apache-2.0
 *
 * Average pooling with DSP instructions: four channels at a time, in sums of 16 bits.
 *
 * Tile: 1 pixel x 4 channels. Scratch: none.
 */
#include "cortado.h"

#if defined(__ARM_FEATURE_DSP)
#include "cortado_dsp.h"

void cortado_avg_pool2d_s8__dsp(const cortado_pool2d_t *L, const int8_t *const rows[], int8_t *out, void *scratch)
{
    const int32_t channels = L->channels, kernel_h = L->kernel_h, low = L->act_min, high = L->act_max;
    int32_t inside_rows = 0, left = -L->pad_left;
    (void)scratch;
    for (int32_t ky = 0; ky < kernel_h; ky++) {
        inside_rows += rows[ky] != NULL;
    }
    for (int32_t x = L->out_w; x > 0; x--, left += L->stride_w, out += channels) {
        const int32_t first = cortado_max(left, 0), last = cortado_min(left + L->kernel_w, L->in_w);
        const int32_t width = last - first, count = cortado_max(width * inside_rows, 1);
        for (int32_t c = 0; c < channels; c = cortado_next4(c, channels)) {
            cortado_sums4_t sums = {0, 0};
            for (int32_t ky = 0; ky < kernel_h; ky++) {
                if (rows[ky] != NULL) {
                    sums = cortado_add_pixels4(sums, rows[ky] + first * channels + c, channels, width);
                }
            }
            for (int32_t i = 0; i < 4; i++) {
                const int32_t mean = cortado_divide_round(cortado_sum_of4(sums, i), count);
                out[c + i] = (int8_t)cortado_clamp(mean, low, high);
            }
        }
    }
}
#else
typedef int cortado_avg_pool2d_needs_dsp; /* an empty translation unit is not C */
#endif
