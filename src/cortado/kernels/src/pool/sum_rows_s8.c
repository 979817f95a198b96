/* SPDX-License-Identifier: Apache-2.0
 *
 * Global average pooling, any number of rows at a time, four channels at a time.
 *
 * Tile: 4 channels. Scratch: none.
 */
#include "cortado.h"
#include "cortado_sums4.h"

void cortado_sum_rows_s8(int32_t *acc, const int8_t *in, int32_t pixels, int32_t channels)
{
    while (pixels > 0) {
        const int32_t n = cortado_min(pixels, CORTADO_SUMS4_MOST);
        int32_t c = 0;
        for (; c + 4 <= channels && cortado_sums4_pays(in, channels); c += 4) {
            const cortado_sums4_t none = {0, 0}, sums = cortado_sums4_pixels(none, in + c, channels, n);
            acc[c] += cortado_sums4_of(sums, 0, n);
            acc[c + 1] += cortado_sums4_of(sums, 1, n);
            acc[c + 2] += cortado_sums4_of(sums, 2, n);
            acc[c + 3] += cortado_sums4_of(sums, 3, n);
        }
        for (; c < channels; c++) {
            const int8_t *p = in + c;
            int32_t sum = 0;
            for (int32_t i = n; i > 0; i--, p += channels) {
                sum += *p;
            }
            acc[c] += sum;
        }
        pixels -= n;
        in += n * channels;
    }
}

void cortado_means_s8(const int32_t *acc, int8_t *out, int32_t channels, int32_t count)
{
    const cortado_mean_t mean = cortado_mean(count);
    for (int32_t c = 0; c < channels; c++) {
        out[c] = (int8_t)cortado_mean_of(mean, acc[c]);
    }
}
