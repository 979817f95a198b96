/* SPDX-License-Identifier: Apache-2.0
 *
 * 3x3 depthwise convolution with DSP instructions: channel by channel along a row, the window in registers. Internal.
 *
 * A pixel further on, the window only needs one new column (two with stride 2), and the weights stay where they are.
 * See depthwise3x3_row_s8__dsp.S for the stream.
 */
#ifndef DEPTHWISE3X3_ROW_S8__DSP_H
#define DEPTHWISE3X3_ROW_S8__DSP_H

#include "cortado.h"
#include "cortado_math.h"

/* depthwise3x3_row_s8__dsp.S knows these offsets. Pointers are to channel 0. */
typedef struct {
    const int8_t *stream;
    int32_t channels;
    int8_t *out;
    const int8_t *first[3][2];   /* the first two columns of the first window, in each row */
    const int8_t *next;          /* the third, in the first row */
    int32_t next_rows[2];        /* from there to the second and third row */
    const int8_t *end;           /* where `next` is after the last column inside the image */
    int32_t edge;                /* whether one more pixel has its last column outside */
    const int8_t *zero;
    int32_t stride;
    int32_t offset;
    int32_t missing, input_zero; /* bit r: row r is outside the image, all its values are input_zero */
} cortado_depthwise3x3_row_t;

void cortado_depthwise3x3_row_s8__dsp(const cortado_depthwise3x3_row_t *S);

#endif /* DEPTHWISE3X3_ROW_S8__DSP_H */
