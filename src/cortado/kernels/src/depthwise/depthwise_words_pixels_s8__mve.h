/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of depthwise convolution under windows of at most four columns and four rows, with vector
 * instructions: columns of the image laid out as words, and outputs of a run of pixels from them. Internal. See
 * depthwise_words_pixels_s8__mve.S.
 */
#ifndef DEPTHWISE_WORDS_PIXELS_S8__MVE_H
#define DEPTHWISE_WORDS_PIXELS_S8__MVE_H

/* Members of cortado_words_columns_t, for the assembly. */
#define COLUMNS_FROM 0 /* step, less and column are read with it */
#define COLUMNS_ZERO 40
/* Those of cortado_words_t. */
#define WORDS_STREAM 0 /* outputs is read with it */
#define WORDS_STEP 8   /* out_step is read with it */
#define WORDS_OFFSET 16
#define WORDS_LOW 20    /* high is read with it */
#define WORDS_COLUMN 28 /* last is read with it */
#define WORDS_FROM 36

#if !defined(__ASSEMBLER__)
#include "cortado.h"
#include "cortado_math.h"

/* Four rows of columns. */
typedef struct {
    const int8_t *from[4];
    int32_t step[4];    /* from a column to the next one; 0: all are the same */
    int32_t less;       /* 16 where columns lie together, so that several are a piece; else 0 */
    int32_t column;     /* bytes of a column's words: 4 of each channel, at most 64 */
    const int8_t *zero; /* a column outside of the image */
} cortado_words_columns_t;

CORTADO_AT(cortado_words_columns_t, from, COLUMNS_FROM);
CORTADO_AT(cortado_words_columns_t, step, COLUMNS_FROM + 16);
CORTADO_AT(cortado_words_columns_t, less, COLUMNS_FROM + 32);
CORTADO_AT(cortado_words_columns_t, column, COLUMNS_FROM + 36);
CORTADO_AT(cortado_words_columns_t, zero, COLUMNS_ZERO);

typedef struct {
    const int8_t *stream;
    int32_t outputs;        /* of a pixel */
    int32_t step, out_step; /* bytes from a pixel's window and outputs to the next one's */
    int32_t offset, low, high;
    int32_t column, last; /* bytes from a window's column to the next one, and from the first to the last */
    const int8_t *from;   /* columns */
} cortado_words_t;

CORTADO_AT(cortado_words_t, stream, WORDS_STREAM);
CORTADO_AT(cortado_words_t, outputs, WORDS_STREAM + 4);
CORTADO_AT(cortado_words_t, step, WORDS_STEP);
CORTADO_AT(cortado_words_t, out_step, WORDS_STEP + 4);
CORTADO_AT(cortado_words_t, offset, WORDS_OFFSET);
CORTADO_AT(cortado_words_t, low, WORDS_LOW);
CORTADO_AT(cortado_words_t, high, WORDS_LOW + 4);
CORTADO_AT(cortado_words_t, column, WORDS_COLUMN);
CORTADO_AT(cortado_words_t, last, WORDS_COLUMN + 4);
CORTADO_AT(cortado_words_t, from, WORDS_FROM);

static inline int32_t cortado_words_reach(const cortado_conv2d_packed_t *L, int32_t pixels)
{
    return (pixels - 1) * L->stride_w + (L->kernel_w - 1) * L->dilation_w + 1;
}

/* Pixels whose columns are laid out together: all of a row, or an even number, two or as many as take 288 words. */
static inline int32_t cortado_words_run(const cortado_conv2d_packed_t *L)
{
    const int32_t spare = 288 / cortado_min(L->in_c, 16) - cortado_words_reach(L, 1);
    const int32_t run = spare < 0 ? 1 : spare / L->stride_w + 1;
    return run < L->out_w ? cortado_max(run & ~1, cortado_min(L->out_w, 2)) : L->out_w;
}

/* Lays out at least one column: in rows with a step those from `skip` bytes on; if it is negative, columns outside of
 * the image. As much as sixteen words may be written at the last one. */
void cortado_words_columns_s8__mve(const cortado_words_columns_t *C, void *to, int32_t columns, int32_t skip);
void cortado_depthwise_words_pixels_s8__mve(const cortado_words_t *W, int8_t *out, int32_t pixels);

#endif
#endif /* DEPTHWISE_WORDS_PIXELS_S8__MVE_H */
