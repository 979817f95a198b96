/* SPDX-License-Identifier: Apache-2.0
 *
 * 3x3 depthwise convolution with DSP instructions: see depthwise3x3_row_s8__dsp.h.
 *
 * Tile: 1 channel x the whole row. Scratch: none.
 */
#include "depthwise3x3_row_s8__dsp.h"

#if defined(__ARM_FEATURE_DSP)

void cortado_depthwise3x3_s8__dsp(const cortado_depthwise_packed_t *L, const int8_t *const rows[], int8_t *out,
                                  void *scratch)
{
    /* The third column of the first window, and the outputs whose third column is inside the image. */
    const int32_t third = 2 - L->pad_left;
    const int32_t inside = cortado_min((L->in_w - 1 - third) / L->stride_w + 1, L->out_w);
    const int8_t *base = rows[0] != NULL ? rows[0] : rows[1] != NULL ? rows[1] : rows[2];
    cortado_depthwise3x3_row_t slide; /* filled field by field: an initializer may become a call */
    (void)scratch;
    slide.stream = L->weights;
    slide.channels = L->in_c;
    slide.out = out;
    slide.next = base + third * L->in_c;
    /* With stride 2 the column before an output's third one is skipped, but not before the first. */
    slide.end = slide.next + ((inside - 1) * L->stride_w + 1) * L->in_c;
    slide.edge = inside < L->out_w;
    slide.zero = L->zero;
    slide.stride = L->stride_w;
    slide.offset = L->out_offset;
    slide.missing = 0;
    slide.input_zero = L->zero[0];
    for (int32_t row = 0; row < 3; row++) {
        for (int32_t i = 0; i < 2; i++) {
            const int32_t x = i - L->pad_left;
            slide.first[row][i] = rows[row] != NULL && x >= 0 ? rows[row] + x * L->in_c : L->zero;
        }
        if (rows[row] == NULL) {
            slide.missing |= 1 << row;
        }
        if (row > 0) {
            slide.next_rows[row - 1] = rows[row] != NULL ? (int32_t)(rows[row] - base) : 0;
        }
    }
    cortado_depthwise3x3_row_s8__dsp(&slide);
}
#else
typedef int cortado_depthwise3x3_needs_dsp; /* an empty translation unit is not C */
#endif
