/* SPDX-License-Identifier: Apache-2.0
 *
 * Average pooling, one output row: per pixel, per channel, over the window inside the image.
 */
#include "cortado.h"
#include "cortado_math.h"

void cortado_avg_pool2d_s8(const cortado_pool2d_t *L, const int8_t *const rows[], int8_t *out, void *scratch)
{
    const int32_t channels = L->channels;
    int32_t inside_rows = 0, left = -L->pad_left;
    (void)scratch;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        inside_rows += rows[ky] != NULL;
    }
    for (int32_t x = L->out_w; x > 0; x--) {
        const int32_t first = cortado_max(left, 0), last = cortado_min(left + L->kernel_w, L->in_w);
        const int32_t width = last - first, count = width * inside_rows;
        for (int32_t c = 0; c < channels; c++) {
            int32_t sum = 0;
            for (int32_t ky = 0; ky < L->kernel_h; ky++) {
                if (rows[ky] != NULL) {
                    const int8_t *p = rows[ky] + first * channels + c;
                    for (int32_t kx = width; kx > 0; kx--) {
                        sum += *p;
                        p += channels;
                    }
                }
            }
            /* A window with no pixel inside has no mean: 0, like CMSIS-NN would divide by nothing. */
            const int32_t mean = count > 0 ? cortado_divide_round(sum, count) : 0;
            *out++ = (int8_t)cortado_clamp(mean, L->act_min, L->act_max);
        }
        left += L->stride_w;
    }
}
