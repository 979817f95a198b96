/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of 3x3 depthwise convolution with DSP instructions: channel by channel along a row, each column of the
 * input into the sums of all windows that it lies in. Internal. See depthwise3x3_row_s8__dsp.S for the stream.
 */
#ifndef DEPTHWISE3X3_ROW_S8__DSP_H
#define DEPTHWISE3X3_ROW_S8__DSP_H

/* Bits of kind. */
#define ROW_LEFT (1 << 0)    /* the first column of the first window lies outside the image */
#define ROW_RIGHT (1 << 1)   /* so does the last one of a window behind those that are counted */
#define ROW_STRIDE2 (1 << 2)
#define ROW_MISSING (1 << 3) /* shifted left by a row of the window: it lies outside the image */
#define ROW_MISSING_ANY (7 << 3)

#if !defined(__ASSEMBLER__)
#include "cortado.h"
#include "cortado_math.h"

/* The assembly reads all of it at once, in this order. Pointers are to channel 0. */
typedef struct {
    int32_t rows[3];      /* from the first row that is there to each; 0 to one that is missing */
    const int8_t *stream;
    const int8_t *start;  /* the first column inside the image, in the first row that is there */
    uint32_t count;       /* bytes between columns, and outputs whose columns are inside, less 1, in the upper half */
    int32_t channels;
    int32_t kind;
    int32_t zeros;        /* the input's zero point in both halves */
    uint32_t out;         /* where outputs go; with stride 1 how far that is from the last column of a window */
} cortado_depthwise3x3_row_t;

CORTADO_AT(cortado_depthwise3x3_row_t, stream, 12);
CORTADO_AT(cortado_depthwise3x3_row_t, start, 16);
CORTADO_AT(cortado_depthwise3x3_row_t, count, 20);
CORTADO_AT(cortado_depthwise3x3_row_t, channels, 24);
CORTADO_AT(cortado_depthwise3x3_row_t, kind, 28);
CORTADO_AT(cortado_depthwise3x3_row_t, zeros, 32);
CORTADO_AT(cortado_depthwise3x3_row_t, out, 36);

void cortado_depthwise3x3_row_s8__dsp(const cortado_depthwise3x3_row_t *R);

#endif
#endif /* DEPTHWISE3X3_ROW_S8__DSP_H */
