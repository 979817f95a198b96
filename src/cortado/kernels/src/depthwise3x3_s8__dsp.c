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
    slide.start = base;
    slide.count = (uint32_t)L->in_c | (uint32_t)(inside - 1) << 16;
    slide.channels = L->in_c;
    slide.zeros = (int32_t)((uint32_t)L->zero[0] << 16 | (uint16_t)L->zero[0]);
    slide.kind = (L->pad_left != 0 ? ROW_LEFT : 0) | (inside < L->out_w ? ROW_RIGHT : 0);
    slide.out = (uint32_t)(uintptr_t)out;
    if (L->stride_w != 1) {
        slide.kind |= ROW_STRIDE2;
    } else {
        slide.out -= (uint32_t)(uintptr_t)(base + third * L->in_c);
    }
    for (int32_t row = 0; row < 3; row++) {
        if (rows[row] == NULL) {
            slide.kind |= ROW_MISSING << row;
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
