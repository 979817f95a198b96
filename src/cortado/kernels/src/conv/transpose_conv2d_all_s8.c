/* SPDX-License-Identifier: Apache-2.0
 *
 * Transposed convolution of whole images: which input row each tap row of an output row reads, row by row.
 *
 * Tile: 1 row. Scratch: a pointer per tap row.
 */
#include "cortado.h"

/* rows[ky] = input row (y + pad_top - ky * dilation_h) / stride_h where that is an integer and exists. */
static void find_rows(const cortado_transpose_conv2d_all_t *L, const int8_t *in, int32_t y, const int8_t **rows)
{
    int32_t at = y + L->pad_top;
    for (int32_t ky = 0; ky < L->kernel_h; ky++, at -= L->dilation_h) {
        const int32_t row = at / L->stride_h;
        rows[ky] = at >= 0 && at % L->stride_h == 0 && row < L->in_h ? in + row * L->in_w * L->in_c : NULL;
    }
}

void cortado_transpose_conv2d_all_s8(const cortado_transpose_conv2d_all_t *L, const int8_t *in, int8_t *out,
                                     void *scratch)
{
    const cortado_transpose_conv2d_t row = {
        .in_w = L->in_w,
        .in_c = L->in_c,
        .out_w = L->out_w,
        .out_c = L->out_c,
        .kernel_h = L->kernel_h,
        .kernel_w = L->kernel_w,
        .stride_w = L->stride_w,
        .pad_left = L->pad_left,
        .dilation_w = L->dilation_w,
        .groups = L->groups,
        .in_offset = L->in_offset,
        .out_offset = L->out_offset,
        .act_min = L->act_min,
        .act_max = L->act_max,
        .weights = L->weights,
        .bias = L->bias,
        .multiplier = L->multiplier,
        .shift = L->shift,
    };
    const int8_t **const rows = scratch;
    for (int32_t image = 0; image < L->images; image++) {
        for (int32_t y = 0; y < L->out_h; y++) {
            find_rows(L, in, y, rows);
            cortado_transpose_conv2d_s8(&row, rows, out, NULL);
            out += L->out_w * L->out_c;
        }
        in += L->in_h * L->in_w * L->in_c;
    }
}
