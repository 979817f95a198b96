/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolution of 16-bit codes with 8-bit weights, one output row, any depth multiplier.
 *
 * Tile: 1 pixel x 1 channel. Scratch: none.
 */
#include "cortado_wide.h"

/* The taps first .. last - 1 of each row are inside of the image. */
static int64_t window_sum(const cortado_layer_s16_t *L, const int8_t *const rows[], int32_t at, int32_t first,
                          int32_t last, const int8_t *w)
{
    const int32_t across = L->kernel_w * L->out_c, step = L->dilation_w * L->in_c;
    int64_t total = 0;
    for (int32_t ky = 0; ky < L->kernel_h; ky++, w += across) {
        if (rows[ky] != NULL) {
            const int16_t *x = cortado_wide_row(rows[ky]) + at + first * step;
            const int8_t *tap = w + first * L->out_c;
            int32_t sum = 0; /* of at most 512 taps of a row */
            for (int32_t kx = last - first; kx > 0; kx--, x += step, tap += L->out_c) {
                sum += *x * *tap;
            }
            total += sum;
        }
    }
    return total;
}

void cortado_depthwise_s16(const cortado_layer_s16_t *L, const int8_t *const rows[], int16_t *out, void *scratch)
{
    const int32_t dilation = L->dilation_w, copies = L->out_c / L->in_c;
    int32_t left = -L->pad_left;
    (void)scratch;
    for (int32_t x = 0; x < L->out_w; x++, out += L->out_c, left += L->stride_w) {
        const int32_t first = left < 0 ? (dilation - 1 - left) / dilation : 0;
        const int32_t last = cortado_min((L->in_w - left + dilation - 1) / dilation, L->kernel_w);
        for (int32_t c = 0; c < L->out_c; c++) {
            const int64_t sum = window_sum(L, rows, left * L->in_c + c / copies, first, last, L->weights + c);
            out[c] = cortado_wide_code(L, sum + cortado_wide_start(L, c), c);
        }
    }
}
