/* SPDX-License-Identifier: Apache-2.0
 *
 * Average pooling with vector instructions: sixteen channels at a time, in sums of 16 bits.
 *
 * Tile: 1 pixel x 16 channels. Scratch: none.
 */
#include "pool16_s8__mve.h"

#if defined(__ARM_FEATURE_MVE)

void cortado_avg_pool2d_s8__mve(const cortado_pool2d_t *L, const int8_t *const rows[], int8_t *out, void *scratch)
{
    const int32_t channels = L->channels;
    int32_t inside_rows = 0, left = -L->pad_left;
    (void)scratch;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        inside_rows += rows[ky] != NULL;
    }
    for (int32_t x = L->out_w; x > 0; x--, left += L->stride_w) {
        const int32_t first = cortado_max(left, 0), last = cortado_min(left + L->kernel_w, L->in_w);
        const int32_t width = last - first, count = cortado_max(width * inside_rows, 1);
        const int32_t inverse = count > 1 ? (int32_t)(0xFFFFFFFFu / (uint32_t)count + 1u) : -1;
        const int32_t division[4] = {count > 1 ? count / 2 : 1, inverse, L->act_min, L->act_max};
        for (int32_t c = 0; c < channels; c += 16) {
            int16_t sums[16];
            cortado_pool16_clear(sums);
            for (int32_t ky = 0; ky < L->kernel_h && width > 0; ky++) {
                const int8_t *row = rows[ky];
                int32_t pixels = width;
                if (row == NULL) {
                    continue;
                }
                /* Whole rows that lie together are one. */
                while (width == L->in_w && ky + 1 < L->kernel_h && rows[ky + 1] == row + pixels * channels) {
                    pixels += width;
                    ky++;
                }
                cortado_pool16_add_s8__mve(sums, row + first * channels + c, channels, pixels, channels - c);
            }
            cortado_pool16_means_s8__mve(sums, out + c, channels - c, division);
        }
        out += channels;
    }
}
#else
typedef int cortado_avg_pool2d_needs_mve; /* an empty translation unit is not C */
#endif
