/* SPDX-License-Identifier: Apache-2.0
 *
 * Global average pooling with DSP instructions: four channels at a time, in sums of 16 bits that hold 256 pixels.
 *
 * Tile: 4 channels. Scratch: none.
 */
#include "cortado.h"

#if defined(__ARM_FEATURE_DSP)
#include "cortado_dsp.h"

void cortado_sum_rows_s8__dsp(int32_t *acc, const int8_t *in, int32_t pixels, int32_t channels)
{
    while (pixels > 0) {
        const int32_t n = cortado_min(pixels, 256);
        int32_t c = 0;
        for (; c + 4 <= channels; c += 4) {
            const cortado_sums4_t none = {0, 0}, sums = cortado_add_pixels4(none, in + c, channels, n);
            acc[c] += (int16_t)sums.even;
            acc[c + 1] += (int16_t)sums.odd;
            acc[c + 2] += sums.even >> 16;
            acc[c + 3] += sums.odd >> 16;
        }
        for (; c < channels; c++) {
            for (int32_t i = 0; i < n; i++) {
                acc[c] += in[i * channels + c];
            }
        }
        pixels -= n;
        in += n * channels;
    }
}
#else
typedef int cortado_sum_rows_needs_dsp; /* an empty translation unit is not C */
#endif
