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
    slide.kind = L->pad_left * ROW_LEFT + (inside < L->out_w ? ROW_RIGHT : 0);
    slide.out = (uint32_t)(uintptr_t)out;
    if (L->stride_w != 1) {
        slide.kind |= ROW_STRIDE2;
    } else {
        slide.out -= (uint32_t)(uintptr_t)(base + third * L->in_c);
    }
    for (int32_t row = 0; row < 3; row++) {
        const int8_t *at = rows[row];
        if (at == NULL) {
            slide.kind |= ROW_MISSING << row;
            at = base;
        }
        slide.rows[row] = (int32_t)(at - base);
        CORTADO_STAY_A_LOOP;
    }
    cortado_depthwise3x3_row_s8__dsp(&slide);
}
#else
typedef int cortado_depthwise3x3_needs_dsp; /* an empty translation unit is not C */
#endif
