/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a depthwise convolution by long multiplies, on cores that take one cycle for them. Internal.
 *
 * Two columns in one word and two weights in another, 2^21 apart, multiply to three neighbouring outputs at once:
 *
 *   (x[n] + x[n+1] B) (w[k+1] + w[k] B)  =  x[n] w[k+1]  +  (x[n] w[k] + x[n+1] w[k+1]) B  +  x[n+1] w[k] B^2
 *                                           of y[n-k-1]      of y[n-k]                        of y[n-k+1]
 *
 * SMLAL adds that to 64 bits: four products of one instruction. All words of one n - k, with k even, and all rows of
 * the window go into one such sum. Outputs of even places are its middle lane, those of odd places its upper lane and
 * the lower lane of the next. Both lower lanes start at 2^20, so that they are never negative and nothing is borrowed
 * from the lane above; the bias takes that back. With stride 2, even and odd columns are two convolutions of stride 1:
 * words hold columns 4 j and 4 j + 2, and 4 j + 1 and 4 j + 3.
 */
#ifndef DEPTHWISE_LONG_ROWS_S8__DSP_H
#define DEPTHWISE_LONG_ROWS_S8__DSP_H

#define LONG_LANE (21)

/* Members of cortado_depthwise_long_t, for the assembly. */
#define LONG_DATA 0 /* and so on: they are read one after the other */
#define LONG_ROWS 4
#define LONG_KERNEL_H 8
#define LONG_ROW_BYTES 12
#define LONG_CHANNELS 16
#define LONG_FIRST 20
#define LONG_TO 24
#define LONG_INSIDE 28
#define LONG_EDGES 32
#define LONG_EDGES_END 36
#define LONG_ZEROS 40
#define LONG_STRIDE 44
#define LONG_LOOP 48
#define LONG_BACK 52
#define LONG_STATE 56
#define LONG_STEP 60
#define LONG_OFFSET 64
#define LONG_SKIP 68
#define LONG_LAST 72
#define LONG_LOW 76
#define LONG_HIGH 80
#define LONG_EACH 84
#define LONG_STREAM_BYTES 88
#define LONG_ENTRY 92

/* Up to five rows of three words of weights, with stride 1, are code without a loop: so many bytes for each. */
#define LONG_FIVE_ROWS (8)
#define LONG_ROW_CODE (56)

#define LONG_FIRST_TILE (1 << 30)
#define LONG_CLAMPED (1 << 29)
#define LONG_SPECIAL (0x80000000) /* either of both */

#if !defined(__ASSEMBLER__)
#include "cortado.h"
#include "cortado_math.h"

/* A word of columns that do not come by fours: bytes from the row's start to both, and which of them the image has. */
typedef struct {
    int32_t low, high;
    int32_t to; /* bytes from the start of the row's words */
    int32_t inside; /* bit 0: the lower one, bit 1: the upper one */
} cortado_long_edge_t;

typedef struct {
    int32_t *data; /* [kernel_h][words][4]: four channels at a time */
    const int8_t *const *rows;
    int32_t kernel_h;
    int32_t row_bytes; /* of data */
    int32_t channels;  /* bytes from column to column */
    int32_t first;     /* bytes from a row's start to the first of the columns that come by fours */
    int32_t to;        /* bytes from the start of a row's words to where those go */
    int32_t inside;    /* how many words; with stride 2 an even number */
    const cortado_long_edge_t *edges, *edges_end;
    uint32_t zeros; /* the zero point four times */
    int32_t stride;
    int32_t loop;   /* which one: 2 * (words of weights of a row - 2) + stride - 1, or LONG_FIVE_ROWS */
    int32_t back;   /* bytes of data from behind a tile's rows to the next tile */
    uint32_t state; /* tiles, and LONG_ bits */
    int32_t step;   /* bytes from output to output */
    int32_t offset;
    int32_t skip; /* outputs of the first tile that are none */
    int32_t last; /* where those of the last tile end */
    uint32_t low, high; /* four times */
    int32_t each;         /* outputs of a channel */
    int32_t stream_bytes; /* of one of them */
    int32_t entry;        /* bytes of the loop's code that are not for this layer */
} cortado_depthwise_long_t;

CORTADO_AT(cortado_depthwise_long_t, data, LONG_DATA);
CORTADO_AT(cortado_depthwise_long_t, rows, LONG_ROWS);
CORTADO_AT(cortado_depthwise_long_t, kernel_h, LONG_KERNEL_H);
CORTADO_AT(cortado_depthwise_long_t, row_bytes, LONG_ROW_BYTES);
CORTADO_AT(cortado_depthwise_long_t, channels, LONG_CHANNELS);
CORTADO_AT(cortado_depthwise_long_t, first, LONG_FIRST);
CORTADO_AT(cortado_depthwise_long_t, to, LONG_TO);
CORTADO_AT(cortado_depthwise_long_t, inside, LONG_INSIDE);
CORTADO_AT(cortado_depthwise_long_t, edges, LONG_EDGES);
CORTADO_AT(cortado_depthwise_long_t, edges_end, LONG_EDGES_END);
CORTADO_AT(cortado_depthwise_long_t, zeros, LONG_ZEROS);
CORTADO_AT(cortado_depthwise_long_t, stride, LONG_STRIDE);
CORTADO_AT(cortado_depthwise_long_t, loop, LONG_LOOP);
CORTADO_AT(cortado_depthwise_long_t, back, LONG_BACK);
CORTADO_AT(cortado_depthwise_long_t, state, LONG_STATE);
CORTADO_AT(cortado_depthwise_long_t, step, LONG_STEP);
CORTADO_AT(cortado_depthwise_long_t, offset, LONG_OFFSET);
CORTADO_AT(cortado_depthwise_long_t, skip, LONG_SKIP);
CORTADO_AT(cortado_depthwise_long_t, last, LONG_LAST);
CORTADO_AT(cortado_depthwise_long_t, low, LONG_LOW);
CORTADO_AT(cortado_depthwise_long_t, high, LONG_HIGH);
CORTADO_AT(cortado_depthwise_long_t, each, LONG_EACH);
CORTADO_AT(cortado_depthwise_long_t, stream_bytes, LONG_STREAM_BYTES);
CORTADO_AT(cortado_depthwise_long_t, entry, LONG_ENTRY);

/* Words of a row of weights. */
static inline int32_t cortado_long_words(int32_t kernel_w, int32_t stride)
{
    return stride == 1 ? (kernel_w + 1) / 2 : kernel_w / 4 * 2 + cortado_min(kernel_w % 4, 2);
}

#define LONG_EDGES_MOST (8)

/* What is made in one row: outputs, padding, tiles of four outputs, words. An output more in front, which is not
 * stored, may make pairs of columns begin where the image does; not if it takes a tile more. */
typedef struct {
    int32_t outputs, pad, tiles, words;
} cortado_long_shape_t;

static inline cortado_long_shape_t cortado_long_shape(const cortado_conv2d_packed_t *L)
{
    const int32_t s = L->stride_w, p = L->pad_left;
    const int32_t more = (s == 1 ? p % 2 == 1 : p % 4 == 2) && (L->out_w + 1) / 4 == L->out_w / 4;
    cortado_long_shape_t S;
    S.outputs = L->out_w + more;
    S.pad = p + more * s;
    S.tiles = S.outputs / 4 + 1;
    S.words = (2 * S.tiles - 1) * s + cortado_long_words(L->kernel_w, s);
    return S;
}

/* Lays out the rows of four channels, from `channel` on. */
void cortado_depthwise_pairs_s8__dsp(const cortado_depthwise_long_t *P, int32_t channel);
/* Makes all outputs of these channels. Returns the stream after them. */
const int8_t *cortado_depthwise_long_row_s8__dsp(const cortado_depthwise_long_t *P, const int8_t *stream, int8_t *out);
#endif

#endif /* DEPTHWISE_LONG_ROWS_S8__DSP_H */
