/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of 3x3 depthwise convolution with DSP instructions: channel by channel along a row, the window in
 * registers. Internal.
 *
 * A pixel further on, the window only needs one new column (two with stride 2), and the weights stay where they are.
 * See
 * depthwise3x3_row_s8__dsp.S for the stream.
 */
#ifndef DEPTHWISE3X3_ROW_S8__DSP_H
#define DEPTHWISE3X3_ROW_S8__DSP_H

/* Members of cortado_depthwise3x3_row_t, for the assembly. */
#define ROW_STREAM 0
#define ROW_CHANNELS 4 /* out is read with it */
#define ROW_FIRST 12
#define ROW_NEXT 36
#define ROW_NEXT_ROWS 40
#define ROW_END 48
#define ROW_EDGE 52
#define ROW_ZERO 56
#define ROW_STRIDE 60
#define ROW_OFFSET 64
#define ROW_MISSING 68
#define ROW_INPUT_ZERO 72

#if !defined(__ASSEMBLER__)
#include "cortado.h"
#include "cortado_math.h"

/* Pointers are to channel 0. */
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

CORTADO_AT(cortado_depthwise3x3_row_t, stream, ROW_STREAM);
CORTADO_AT(cortado_depthwise3x3_row_t, channels, ROW_CHANNELS);
CORTADO_AT(cortado_depthwise3x3_row_t, out, ROW_CHANNELS + 4);
CORTADO_AT(cortado_depthwise3x3_row_t, first, ROW_FIRST);
CORTADO_AT(cortado_depthwise3x3_row_t, next, ROW_NEXT);
CORTADO_AT(cortado_depthwise3x3_row_t, next_rows, ROW_NEXT_ROWS);
CORTADO_AT(cortado_depthwise3x3_row_t, end, ROW_END);
CORTADO_AT(cortado_depthwise3x3_row_t, edge, ROW_EDGE);
CORTADO_AT(cortado_depthwise3x3_row_t, zero, ROW_ZERO);
CORTADO_AT(cortado_depthwise3x3_row_t, stride, ROW_STRIDE);
CORTADO_AT(cortado_depthwise3x3_row_t, offset, ROW_OFFSET);
CORTADO_AT(cortado_depthwise3x3_row_t, missing, ROW_MISSING);
CORTADO_AT(cortado_depthwise3x3_row_t, input_zero, ROW_INPUT_ZERO);

void cortado_depthwise3x3_row_s8__dsp(const cortado_depthwise3x3_row_t *R);

#endif
#endif /* DEPTHWISE3X3_ROW_S8__DSP_H */
