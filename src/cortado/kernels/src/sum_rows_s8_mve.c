/* SPDX-License-Identifier: Apache-2.0
 *
 * Global average pooling with vector instructions: sixteen channels at a time, in sums of 16 bits that hold 256 pixels.
 */
#include "cortado_pool.h"

#if defined(__ARM_FEATURE_MVE)

void cortado_sum_rows_s8__mve(int32_t *acc, const int8_t *in, int32_t pixels, int32_t channels)
{
    while (pixels > 0) {
        const int32_t n = cortado_min(pixels, 256);
        for (int32_t c = 0; c < channels; c += 16) {
            int16_t sums[16];
            cortado_pool_clear(sums);
            cortado_pool_add(sums, in + c, channels, n, channels - c);
            for (int32_t i = 0; i < cortado_min(channels - c, 16); i++) {
                acc[c + i] += sums[i / 2 + (i & 1) * 8];
            }
        }
        pixels -= n;
        in += n * channels;
    }
}
#else
typedef int cortado_sum_rows_needs_mve; /* an empty translation unit is not C */
#endif
