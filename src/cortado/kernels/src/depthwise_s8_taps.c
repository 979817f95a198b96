/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolution by pointers to taps: see cortado_taps.h. Edges cost nothing: a tap outside the image points to
 * the zero-point pixel.
 */
#include "cortado_taps.h"

/* Points the taps of one row at the window that starts at column `left`. */
static const int8_t **point_row(const cortado_depthwise_t *L, const int8_t *row, int32_t left, const int8_t **to)
{
    if (row == NULL) {
        for (int32_t kx = L->kernel_w; kx > 0; kx--) {
            *to++ = L->zero;
        }
        return to;
    }
    const int8_t *at = row + left * L->in_c;
    const int32_t step = L->dilation_w * L->in_c;
    for (int32_t kx = L->kernel_w; kx > 0; kx--) {
        *to++ = left >= 0 && left < L->in_w ? at : L->zero;
        left += L->dilation_w;
        at += step;
    }
    return to;
}

void CORTADO_TAPS_NAME(cortado_depthwise_s8)(const cortado_depthwise_t *L, const int8_t *const rows[], int8_t *out,
                                             void *scratch)
{
    const int8_t **const taps = scratch, **end = taps + L->kernel_h * L->kernel_w;
    if (CORTADO_TAPS_TOGETHER == 2 && (end - taps) % 2 != 0) {
        *end++ = L->zero; /* its weights are 0 */
    }
    const cortado_taps_t layer = {L->weights,    (const int8_t *const *)taps, (const int8_t *const *)end, L->in_c,
                                  L->out_offset, L->act_min,                  L->act_max};
    for (int32_t x = 0, left = -L->pad_left; x < L->out_w; x++, left += L->stride_w) {
        const int8_t **to = taps;
        for (int32_t ky = 0; ky < L->kernel_h; ky++) {
            to = point_row(L, rows[ky], left, to);
        }
        cortado_taps_pixel(&layer, out);
        out += L->in_c;
    }
}
