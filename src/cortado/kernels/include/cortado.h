/* SPDX-License-Identifier: Apache-2.0
 *
 * Cortado's kernel library: neural-network kernels for Arm Cortex-M.
 *
 * C99, no allocation, no stdio, no globals. Tensors are NHWC. Activations are int8 (names with s8), int16 (s16) or
 * float32 (f32), integers and positions int32 (s32), truth values bytes; weights are int8, int4 in kernels with
 * "narrow" or "runs" in their names, or float32. Every layer is described by a constant descriptor that lives in
 * flash. A spatial kernel computes ONE output row from an array of pointers to the input rows it needs; a row outside
 * the image is NULL. A pixelwise kernel computes any contiguous span of pixels.
 *
 * A name such as cortado_conv2d_s8 is the portable kernel, which always exists and takes every legal layer. Variants
 * with a suffix give the same bits faster:
 *
 *   __scalar   cores without DSP and vector instructions
 *   __dsp      cores with the DSP instructions (those with vector instructions have them too)
 *   __mve      cores with vector instructions (MVE)
 *
 * Convolution variants take packed layers, which have descriptors of their own: `weights` is a stream, aligned to 4
 * bytes, that the compiler packs for the variant and that holds weights, biases and factors in the order they are read;
 * the input offset is folded into the biases. `scratch` is aligned to 4 bytes; functions such as
 * cortado_conv2d_s8__dsp_scratch say how many it has. No kernel reads or writes outside its buffers.
 */
#ifndef CORTADO_H
#define CORTADO_H

#include "cortado_offsets.h"

#include <stddef.h>
#include <stdint.h>

#include "cortado_endian.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Convolution ------------------------------------------------------------------------------------------- */

/* acc = bias[oc] + sum((x + in_offset) * w);  out = clamp(requant(acc, multiplier[oc], shift[oc]) + out_offset).
 * Bundles fold the input offset into the bias (bias[oc] += in_offset * sum of w) and set in_offset to 0.
 * Taps outside the image read `zero`: one pixel of in_c bytes that hold the input zero point, so they add nothing
 * once the offset is applied. */
typedef struct {
    int32_t in_w, in_c;   /* one input row: in_w pixels of in_c channels */
    int32_t out_w, out_c; /* one output row */
    int32_t kernel_h, kernel_w;
    int32_t stride_w, pad_left, dilation_w; /* the vertical ones are in the choice of rows */
    int32_t groups;                         /* in_c / groups input channels feed out_c / groups output channels */
    int32_t in_offset;                      /* -(input zero point), or 0 when folded into bias */
    int32_t out_offset, act_min, act_max;
    const int8_t *weights;  /* [out_c][kernel_h][kernel_w][in_c / groups] */
    const int32_t *bias;    /* [out_c], or NULL for none */
    const int32_t *multiplier, *shift; /* [out_c] */
    const int8_t *zero;     /* [in_c], each byte the input zero point */
} cortado_conv2d_t;

typedef struct {
    int32_t in_w, in_c;
    int32_t out_w, out_c;
    int32_t groups;
    int16_t kernel_h, kernel_w;
    int16_t stride_w, pad_left, dilation_w;
    int8_t out_offset, act_min, act_max;
    int8_t lean;           /* __scalar, small cores: 1 for two pixels at a time instead of four, half the scratch */
    const int8_t *weights; /* the variant's stream */
    const int8_t *zero;
} cortado_conv2d_packed_t;

/* rows: kernel_h pointers, rows[i] is the input row under tap row i, NULL outside the image. */
void cortado_conv2d_s8(const cortado_conv2d_t *L, const int8_t *const rows[], int8_t *out, void *scratch);
void cortado_conv2d_s8__scalar(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                               void *scratch);
void cortado_conv2d_s8__dsp(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out, void *scratch);
void cortado_conv2d_s8__mve(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out, void *scratch);
/* Faster, for layers without weights of -128, whose sums fit 24 bits and are all shifted right. */
void cortado_conv2d_lanes_s8__dsp(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                  void *scratch);

int32_t cortado_conv2d_s8__scalar_scratch(const cortado_conv2d_packed_t *L);
int32_t cortado_conv2d_s8__dsp_scratch(const cortado_conv2d_packed_t *L);
int32_t cortado_conv2d_lanes_s8__dsp_scratch(const cortado_conv2d_packed_t *L);
int32_t cortado_conv2d_s8__mve_scratch(const cortado_conv2d_packed_t *L);

/* 1x1 convolution, stride 1, no padding, one group: over `pixels` consecutive pixels. Also every linear layer. */
typedef struct {
    int32_t in_c, out_c;
    int16_t in_offset, out_offset, act_min, act_max;
    const int8_t *weights; /* [out_c][in_c] */
    const int32_t *bias;   /* [out_c], or NULL */
    const int32_t *multiplier, *shift; /* [out_c] */
} cortado_conv1x1_t;

typedef struct {
    int32_t in_c, out_c;
    int8_t out_offset, act_min, act_max;
    const int8_t *weights; /* the variant's stream */
} cortado_conv1x1_packed_t;

CORTADO_AT(cortado_conv1x1_packed_t, in_c, CORTADO_CONV1X1_IN_C);
CORTADO_AT(cortado_conv1x1_packed_t, out_c, CORTADO_CONV1X1_IN_C + 4);
CORTADO_AT(cortado_conv1x1_packed_t, out_offset, CORTADO_CONV1X1_OUT_OFFSET);
CORTADO_AT(cortado_conv1x1_packed_t, act_min, CORTADO_CONV1X1_OUT_OFFSET + 1);
CORTADO_AT(cortado_conv1x1_packed_t, act_max, CORTADO_CONV1X1_OUT_OFFSET + 2);
CORTADO_AT(cortado_conv1x1_packed_t, weights, CORTADO_CONV1X1_WEIGHTS);

void cortado_conv1x1_s8(const cortado_conv1x1_t *L, const int8_t *in, int8_t *out, int32_t pixels, void *scratch);
void cortado_conv1x1_s8__scalar(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                void *scratch);
void cortado_conv1x1_s8__dsp(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                             void *scratch);
void cortado_conv1x1_s8__mve(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                             void *scratch);
void cortado_conv1x1_shallow_s8__mve(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                     void *scratch);
void cortado_conv1x1_lanes_s8__dsp(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                   void *scratch);

/* `pixels` is the most that a call gets. */
int32_t cortado_conv1x1_s8__scalar_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels);
int32_t cortado_conv1x1_s8__dsp_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels);
int32_t cortado_conv1x1_lanes_s8__dsp_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels);

/* The same layers, best for one pixel, with a stream of their own and no scratch. (The portable one is conv1x1, and so
 * is the __mve one.) */
void cortado_linear_s8__scalar(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                               void *scratch);
void cortado_linear_s8__dsp(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                            void *scratch);
/* Faster, for layers without weights of -128. */
void cortado_linear_lanes_s8__dsp(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                  void *scratch);

/* Depthwise convolution: output channel c reads input channel c / depth_multiplier. Variants need a depth multiplier of
 * 1 and at least 4 channels, __mve at least 16. */
typedef struct {
    int32_t in_w, in_c;
    int32_t out_w, out_c; /* out_c = in_c * depth_multiplier */
    int16_t depth_multiplier;
    int16_t kernel_h, kernel_w;
    int16_t stride_w, pad_left, dilation_w;
    int16_t in_offset, out_offset, act_min, act_max;
    const int8_t *weights; /* [kernel_h][kernel_w][out_c] */
    const int32_t *bias;
    const int32_t *multiplier, *shift;
    const int8_t *zero;    /* [in_c] */
} cortado_depthwise_t;

/* With a depth multiplier of 1 there are as many output channels as input channels. */
typedef struct {
    int32_t in_w, in_c;
    int32_t out_w;
    uint8_t kernel_h, kernel_w;
    uint8_t stride_w, pad_left, dilation_w;
    int8_t out_offset, act_min, act_max;
    const int8_t *weights; /* the variant's stream */
    const int8_t *zero;
} cortado_depthwise_packed_t;

void cortado_depthwise_s8(const cortado_depthwise_t *L, const int8_t *const rows[], int8_t *out, void *scratch);
void cortado_depthwise_s8__scalar(const cortado_depthwise_packed_t *L, const int8_t *const rows[], int8_t *out,
                                  void *scratch);
void cortado_depthwise_s8__dsp(const cortado_depthwise_packed_t *L, const int8_t *const rows[], int8_t *out,
                               void *scratch);
void cortado_depthwise_s8__mve(const cortado_depthwise_packed_t *L, const int8_t *const rows[], int8_t *out,
                               void *scratch);
/* For 1 to 15 channels. */
void cortado_depthwise_few_s8__mve(const cortado_depthwise_packed_t *L, const int8_t *const rows[], int8_t *out,
                                   void *scratch);
/* For 3x3 kernels: faster, and no scratch. __dsp for stride 1 or 2, dilation 1,
 * at most one column of padding on each side, no clamp but [-128, 127], and right shifts only. */
void cortado_depthwise3x3_s8__dsp(const cortado_depthwise_packed_t *L, const int8_t *const rows[], int8_t *out,
                                  void *scratch);
void cortado_depthwise3x3_s8__mve(const cortado_depthwise_packed_t *L, const int8_t *const rows[], int8_t *out,
                                  void *scratch);
/* By long multiplies, for windows of 3 to 9 columns, stride 1 or 2, no gaps, right shifts only, and at least 4
 * channels, each with out_c / in_c outputs; `groups` is in_c. */
void cortado_depthwise_long_s8__dsp(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                    void *scratch);
/* For channels with 2 to 17 outputs each, out_c / in_c; `groups` is in_c. */
void cortado_depthwise_several_s8__mve(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                       void *scratch);
/* For windows of at most four columns and four rows, and right shifts only; several outputs of each channel, or one. */
void cortado_depthwise_words_s8__mve(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                     void *scratch);

int32_t cortado_depthwise_long_s8__dsp_scratch(const cortado_conv2d_packed_t *L);
int32_t cortado_depthwise_s8__scalar_scratch(const cortado_depthwise_packed_t *L);
int32_t cortado_depthwise_s8__dsp_scratch(const cortado_depthwise_packed_t *L);
int32_t cortado_depthwise_s8__mve_scratch(const cortado_depthwise_packed_t *L);
int32_t cortado_depthwise_few_s8__mve_scratch(const cortado_depthwise_packed_t *L);
int32_t cortado_depthwise_several_s8__mve_scratch(const cortado_conv2d_packed_t *L);
int32_t cortado_depthwise_words_s8__mve_scratch(const cortado_conv2d_packed_t *L);

/* Transposed convolution: input pixel (i, j) spreads over the output pixels (i * stride + ky * dilation - pad, ...).
 * Seen from output row y that is a set of taps: tap row ky reads input row (y + pad_top - ky * dilation_h) / stride_h
 * where that division is exact and the row exists. Taps that do not exist add nothing, so the input offset cannot be
 * folded into the bias: acc = bias + sum((x + in_offset) * w) over the taps that exist. */
typedef struct {
    int32_t in_w, in_c;
    int32_t out_w, out_c;
    int32_t kernel_h, kernel_w;
    int32_t stride_w, pad_left, dilation_w;
    int32_t groups;
    int32_t in_offset; /* -(input zero point) */
    int32_t out_offset, act_min, act_max;
    const int8_t *weights; /* [out_c][kernel_h][kernel_w][in_c / groups] */
    const int32_t *bias;   /* [out_c], or NULL */
    const int32_t *multiplier, *shift; /* [out_c] */
} cortado_transpose_conv2d_t;

/* rows: kernel_h pointers, rows[ky] is the input row that tap row ky reads, NULL if there is none. */
void cortado_transpose_conv2d_s8(const cortado_transpose_conv2d_t *L, const int8_t *const rows[], int8_t *out,
                                 void *scratch);

/* The same as ordinary convolutions: output row y is row y of phase y % phases, a convolution whose output channels are
 * the pixels of one stride side by side. Its tap rows begin at `top` of the rows that the step gets. */
typedef struct {
    int32_t top[4];
    const cortado_conv2d_t *phase[4];
} cortado_phases_t;

typedef struct {
    int32_t top[4];
    const cortado_conv2d_packed_t *phase[4];
} cortado_phases_packed_t;

/* The most scratch that a phase needs. */
int32_t cortado_phases_scratch(const cortado_phases_packed_t *L, int32_t phases,
                               int32_t (*need)(const cortado_conv2d_packed_t *));

/* The same with groups of channels, as convolutions that have them too: of output row y the pixels x, x + columns, ...
 * are a row of column[y % phases][x]. It is made at the start of scratch, which has made_bytes for it, and then moved
 * to its places. `row` is the kernel of all of them, and gets what is behind. phases is a power of two. */
typedef struct {
    int32_t top[4];
    int32_t phases, columns;
    int32_t out_c, made_bytes;
    const cortado_conv2d_t *column[16]; /* [phases][columns] */
} cortado_conv_columns_t;

typedef void (*cortado_conv_columns_row_t)(const cortado_conv2d_t *L, const int8_t *const rows[], int8_t *out,
                                           void *scratch);

void cortado_conv_columns_s8(const cortado_conv_columns_t *L, const int8_t *const rows[], int8_t *out, void *scratch,
                             int32_t y, cortado_conv_columns_row_t row);
int32_t cortado_conv_columns_s8_scratch(const cortado_conv_columns_t *L, int32_t (*need)(const cortado_conv2d_t *));

typedef struct {
    int32_t top[4];
    int32_t phases, columns;
    int32_t out_c, made_bytes;
    const cortado_conv2d_packed_t *column[16]; /* [phases][columns] */
} cortado_conv_packed_columns_t;

typedef void (*cortado_conv_packed_columns_row_t)(const cortado_conv2d_packed_t *L, const int8_t *const rows[],
                                                  int8_t *out, void *scratch);

void cortado_conv_packed_columns_s8(const cortado_conv_packed_columns_t *L, const int8_t *const rows[], int8_t *out,
                                    void *scratch, int32_t y, cortado_conv_packed_columns_row_t row);
int32_t cortado_conv_packed_columns_s8_scratch(const cortado_conv_packed_columns_t *L,
                                               int32_t (*need)(const cortado_conv2d_packed_t *));

typedef struct {
    int32_t top[4];
    int32_t phases, columns;
    int32_t out_c, made_bytes;
    const cortado_depthwise_t *column[16]; /* [phases][columns] */
} cortado_depthwise_columns_t;

typedef void (*cortado_depthwise_columns_row_t)(const cortado_depthwise_t *L, const int8_t *const rows[], int8_t *out,
                                                void *scratch);

void cortado_depthwise_columns_s8(const cortado_depthwise_columns_t *L, const int8_t *const rows[], int8_t *out,
                                  void *scratch, int32_t y, cortado_depthwise_columns_row_t row);
int32_t cortado_depthwise_columns_s8_scratch(const cortado_depthwise_columns_t *L,
                                             int32_t (*need)(const cortado_depthwise_t *));

typedef struct {
    int32_t top[4];
    int32_t phases, columns;
    int32_t out_c, made_bytes;
    const cortado_depthwise_packed_t *column[16]; /* [phases][columns] */
} cortado_depthwise_packed_columns_t;

typedef void (*cortado_depthwise_packed_columns_row_t)(const cortado_depthwise_packed_t *L,
                                                       const int8_t *const rows[], int8_t *out, void *scratch);

void cortado_depthwise_packed_columns_s8(const cortado_depthwise_packed_columns_t *L, const int8_t *const rows[],
                                         int8_t *out, void *scratch, int32_t y,
                                         cortado_depthwise_packed_columns_row_t row);
int32_t cortado_depthwise_packed_columns_s8_scratch(const cortado_depthwise_packed_columns_t *L,
                                                    int32_t (*need)(const cortado_depthwise_packed_t *));

/* The same over whole images. pad_top and pad_left may be negative: the first tap then reaches past the first output.
 * scratch holds kernel_h pointers. */
typedef struct {
    int32_t images, in_h, in_w, in_c;
    int32_t out_h, out_w, out_c;
    int32_t kernel_h, kernel_w;
    int32_t stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w;
    int32_t groups;
    int32_t in_offset, out_offset, act_min, act_max;
    const int8_t *weights; /* [out_c][kernel_h][kernel_w][in_c / groups] */
    const int32_t *bias;   /* [out_c], or NULL */
    const int32_t *multiplier, *shift; /* [out_c] */
} cortado_transpose_conv2d_all_t;

void cortado_transpose_conv2d_all_s8(const cortado_transpose_conv2d_all_t *L, const int8_t *in, int8_t *out,
                                     void *scratch);
/* 8 bytes for a pointer, on any machine. */
int32_t cortado_transpose_conv2d_all_s8_scratch(const cortado_transpose_conv2d_all_t *L);

/* out[b][i][j] = clamp(requant(sum over k of (lhs[b][i][k] - lhs_zero) * (rhs[b][j][k] - rhs_zero)) + out_zero). */
typedef struct {
    int32_t batches, rows, cols, depth; /* lhs [batches][rows][depth], rhs [batches][cols][depth] (transposed) */
    int32_t lhs_zero, rhs_zero, out_zero;
    int32_t multiplier, shift;
    int32_t act_min, act_max;
} cortado_batch_matmul_t;

void cortado_batch_matmul_s8(const cortado_batch_matmul_t *L, const int8_t *lhs, const int8_t *rhs, int8_t *out,
                             void *scratch);
/* At least 2 rows and 2 columns (__mve: 4), right shifts only, and all of int8 as outputs. */
void cortado_batch_matmul_s8__dsp(const cortado_batch_matmul_t *L, const int8_t *lhs, const int8_t *rhs, int8_t *out,
                                  void *scratch);
/* Besides, products of at most 511: their sums fit 24 bits. */
void cortado_batch_matmul_lanes_s8__dsp(const cortado_batch_matmul_t *L, const int8_t *lhs, const int8_t *rhs,
                                        int8_t *out, void *scratch);
void cortado_batch_matmul_s8__mve(const cortado_batch_matmul_t *L, const int8_t *lhs, const int8_t *rhs, int8_t *out,
                                  void *scratch);
int32_t cortado_batch_matmul_s8__dsp_scratch(const cortado_batch_matmul_t *L);
int32_t cortado_batch_matmul_lanes_s8__dsp_scratch(const cortado_batch_matmul_t *L);
int32_t cortado_batch_matmul_s8__mve_scratch(const cortado_batch_matmul_t *L);

/* ---- Recurrent layers -------------------------------------------------------------------------------------- */

/* A layer over all steps of each sequence, in one direction: in [sequences][steps][in_c], out [..][..][units].
 * A gate's two paths, X of the input and H of the state before, are requantized each on its own and added; gates in
 * front of a sigmoid have 11 fractional bits, in front of a tanh 12, results of both 15.
 *
 *   LSTM  i, f, o = sigmoid(sat16(X + H)), g = tanh(sat16(X + H))
 *         c = sat16((f * c + ((i * g + 2^(cell_bits - 1)) >> cell_bits) + 2^14) >> 15)
 *         h = clamp(requant(o * tanh(c)) + out_offset)
 *   GRU   r, z = sigmoid(sat16(X + H)), n = tanh(sat16(X + ((r * sat16(H) + 2^13) >> 14)))
 *         n' = (n + 2^(cell_bits - 1)) >> cell_bits
 *         h16 = (n' * 2^15 + z * (h16 - n') + 2^14) >> 15, h = clamp(requant(h16) + out_offset)
 *   RNN   h = clamp(requant(tanh(sat16(X + H))) + out_offset), or with relu
 *         h = clamp(((max(X + H, 0) + 128) >> 8) + out_offset)
 *
 * h, in codes, is the output and what the next step multiplies. `start` holds the state in front of the first step if
 * `starts`; it is 0 otherwise. */
typedef struct {
    int32_t in_c, units, steps, sequences;
    int32_t reverse;   /* the last step comes first */
    int32_t last_only; /* out [..][units]: what there is after the step that comes last */
    int32_t out_multiplier, out_shift, out_offset;
    int32_t starts, start_zero, start_multiplier, start_shift;
    int32_t cell_zero, cell_multiplier, cell_shift; /* LSTM: of the cells that are given */
    int32_t cell_bits; /* steps of 2^(cell_bits - 15): of an LSTM's cells, of a GRU's h16 */
    int32_t gives_cells; /* LSTM: the cells after every step; otherwise, if anywhere, after the one that comes last */
    int32_t no_states;   /* LSTM: h is not given */
    int32_t given_multiplier, given_shift, given_offset;
    int32_t relu;                        /* RNN */
    int32_t together;                    /* rows of weights whose products are computed together: 3 or 4 */
    const int8_t *zero;                  /* [units] codes of 0 */
    const int8_t *weights_x, *weights_h; /* streams in the kernel's order */
} cortado_recurrent_t;

/* A few rows of one path: requant(bias + n > 0 products); returns the stream behind them. Each reads one of its own;
 * __scalar 3 rows on small cores, all others 4. These two need |sum * 2^max(shift, 0)| < 2^30. */
typedef const int8_t *(*cortado_gates_t)(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates);

const int8_t *cortado_gates_s8(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates);
const int8_t *cortado_gates_s8__scalar(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates);
const int8_t *cortado_gates_s8__dsp(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates);

/* The cells of an LSTM are a second output, with codes of their own. Either output may be NULL. */
void cortado_lstm_s8(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start, const int8_t *start_cells,
                     int8_t *out, int8_t *cells, void *scratch, cortado_gates_t gates);
void cortado_gru_s8(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start, int8_t *out, void *scratch,
                    cortado_gates_t gates);
void cortado_rnn_s8(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start, int8_t *out, void *scratch,
                    cortado_gates_t gates);
/* Streams of their own, four rows together. */
void cortado_lstm_s8__mve(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start,
                          const int8_t *start_cells, int8_t *out, int8_t *cells, void *scratch);
void cortado_gru_s8__mve(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start, int8_t *out,
                         void *scratch);
void cortado_rnn_s8__mve(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start, int8_t *out,
                         void *scratch);
/* The scratch bytes of either. */
int32_t cortado_lstm_s8_scratch(const cortado_recurrent_t *L);
int32_t cortado_gru_s8_scratch(const cortado_recurrent_t *L);
int32_t cortado_rnn_s8_scratch(const cortado_recurrent_t *L);

/* The same of 16-bit codes without zero points, and weights [gates][units][in_c], [gates][units][units] of 8 bits. A
 * sum that may leave 32 bits is divided by 2^sum_shift first; every requant is one rounding, ties up, and a path is
 * clamped to 31 bits. */
typedef struct {
    int32_t in_c, units, steps, sequences, reverse, last_only;
    int32_t out_multiplier, out_shift;
    int32_t start_multiplier, start_shift;
    int32_t h16; /* 1: a GRU, whose start is that of h16 */
    int32_t cell_multiplier, cell_shift, cell_bits, gives_cells;
    int32_t given_multiplier, given_shift;
    int32_t relu;
    int32_t sum_shift_x, sum_shift_h;
    const int8_t *weights_x, *weights_h;            /* for a variant: its streams */
    const int32_t *bias_x, *multiplier_x, *shift_x; /* [gates][units]; NULL for a variant */
    const int32_t *bias_h, *multiplier_h, *shift_h;
} cortado_recurrent_s16_t;

void cortado_lstm_s16(const cortado_recurrent_s16_t *L, const int16_t *in, const int16_t *start,
                      const int16_t *start_cells, int16_t *out, int16_t *cells, void *scratch);
void cortado_gru_s16(const cortado_recurrent_s16_t *L, const int16_t *in, const int16_t *start, int16_t *out,
                     void *scratch);
void cortado_rnn_s16(const cortado_recurrent_s16_t *L, const int16_t *in, const int16_t *start, int16_t *out,
                     void *scratch);
/* Streams of their own, four rows together. All shifts of paths are to the right, and multipliers of states with a
 * shift of 0 or more are at least 2^30. */
void cortado_lstm_s16__mve(const cortado_recurrent_s16_t *L, const int16_t *in, const int16_t *start,
                           const int16_t *start_cells, int16_t *out, int16_t *cells, void *scratch);
void cortado_gru_s16__mve(const cortado_recurrent_s16_t *L, const int16_t *in, const int16_t *start, int16_t *out,
                          void *scratch);
void cortado_rnn_s16__mve(const cortado_recurrent_s16_t *L, const int16_t *in, const int16_t *start, int16_t *out,
                          void *scratch);

int32_t cortado_recurrent_s16_scratch(const cortado_recurrent_s16_t *L);

/* ---- 16-bit codes with 8-bit weights ------------------------------------------------------------------------ */

/* Any window, grouped or depthwise; zero points are 0. sum = bias + sum of x * w; where it may leave 32 bits, it is
 * divided by 2^sum_shift, to nearest, ties up; out = clamp(requant(sum)). Weights are [out_c][kernel_h][kernel_w]
 * [in_c / groups], of a depthwise layer [kernel_h][kernel_w][out_c]. */
typedef struct {
    int32_t in_w, in_c, out_w, out_c;
    int32_t kernel_h, kernel_w;
    int32_t stride_w, pad_left, dilation_w;
    int32_t groups;
    int32_t sum_shift;
    int32_t act_min, act_max;
    const int8_t *weights;
    const int32_t *bias; /* [out_c], or NULL */
    const int32_t *multiplier, *shift;
} cortado_layer_s16_t;

/* For variants, where sums fit 32 bits, multipliers are at least 2^30 and all shifts are to the right. */
typedef struct {
    int32_t in_w, in_c, out_w, out_c;
    int32_t groups;
    int16_t kernel_h, kernel_w;
    int16_t stride_w, pad_left, dilation_w;
    int16_t act_min, act_max;
    const int8_t *weights; /* the variant's stream */
    const int16_t *zero;   /* [in_c], of a window */
} cortado_layer_s16_packed_t;

/* rows: pointers to rows of int16_t, NULL outside of the image. */
void cortado_conv2d_s16(const cortado_layer_s16_t *L, const int8_t *const rows[], int16_t *out, void *scratch);
void cortado_conv2d_s16__dsp(const cortado_layer_s16_packed_t *L, const int8_t *const rows[], int16_t *out,
                             void *scratch);
void cortado_conv2d_s16__mve(const cortado_layer_s16_packed_t *L, const int8_t *const rows[], int16_t *out,
                             void *scratch);
void cortado_conv2d_s16__scalar(const cortado_layer_s16_packed_t *L, const int8_t *const rows[], int16_t *out,
                                void *scratch);
void cortado_conv1x1_s16(const cortado_layer_s16_t *L, const int16_t *in, int16_t *out, int32_t pixels, void *scratch);
void cortado_conv1x1_s16__dsp(const cortado_layer_s16_packed_t *L, const int16_t *in, int16_t *out, int32_t pixels,
                              void *scratch);
void cortado_conv1x1_s16__mve(const cortado_layer_s16_packed_t *L, const int16_t *in, int16_t *out, int32_t pixels,
                              void *scratch);
void cortado_conv1x1_s16__scalar(const cortado_layer_s16_packed_t *L, const int16_t *in, int16_t *out, int32_t pixels,
                                 void *scratch);
/* The same for single pixels. */
void cortado_linear_s16__scalar(const cortado_layer_s16_packed_t *L, const int16_t *in, int16_t *out, int32_t pixels,
                                void *scratch);
/* For kernel_w <= 512. */
void cortado_depthwise_s16(const cortado_layer_s16_t *L, const int8_t *const rows[], int16_t *out, void *scratch);
/* One output channel for each input channel, of which there are at least 4, with vector instructions 8. */
void cortado_depthwise_s16__dsp(const cortado_layer_s16_packed_t *L, const int8_t *const rows[], int16_t *out,
                                void *scratch);
void cortado_depthwise_s16__mve(const cortado_layer_s16_packed_t *L, const int8_t *const rows[], int16_t *out,
                                void *scratch);
void cortado_depthwise_s16__scalar(const cortado_layer_s16_packed_t *L, const int8_t *const rows[], int16_t *out,
                                   void *scratch);

int32_t cortado_conv2d_s16__dsp_scratch(const cortado_layer_s16_packed_t *L);
int32_t cortado_conv2d_s16__mve_scratch(const cortado_layer_s16_packed_t *L);
int32_t cortado_conv1x1_s16__dsp_scratch(const cortado_layer_s16_packed_t *L, int32_t pixels);
int32_t cortado_depthwise_s16__dsp_scratch(const cortado_layer_s16_packed_t *L);
int32_t cortado_depthwise_s16__mve_scratch(const cortado_layer_s16_packed_t *L);
int32_t cortado_conv2d_s16__scalar_scratch(const cortado_layer_s16_packed_t *L);
int32_t cortado_conv1x1_s16__scalar_scratch(const cortado_layer_s16_packed_t *L, int32_t pixels);
int32_t cortado_depthwise_s16__scalar_scratch(const cortado_layer_s16_packed_t *L);

/* Transposed convolution of whole images: input pixel (i, j) reaches the outputs (i * stride + ky * dilation - pad,
 * ...). weights [out_c][kernel_h][kernel_w][in_c / groups]. */
typedef struct {
    int32_t images, in_h, in_w, in_c;
    int32_t out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w;
    int32_t pad_top, pad_left, dilation_h, dilation_w;
    int32_t groups, sum_shift;
    int32_t act_min, act_max;
    const int8_t *weights;
    const int32_t *bias; /* or NULL */
    const int32_t *multiplier, *shift;
} cortado_transpose_conv2d_s16_t;

void cortado_transpose_conv2d_s16(const cortado_transpose_conv2d_s16_t *L, const int16_t *in, int16_t *out);

/* Two matrices: out[i][j] = requant(sum over k of lhs[i][k] * rhs[j][k], divided by 2^sum_shift). */
typedef struct {
    int32_t batches, rows, cols, depth;
    int32_t sum_shift, multiplier, shift;
} cortado_batch_matmul_s16_t;

void cortado_batch_matmul_s16(const cortado_batch_matmul_s16_t *L, const int16_t *lhs, const int16_t *rhs, int16_t *out,
                              void *scratch);

/* Softmax over channels. y = requant(largest - x) is log2 of the ratio in steps of 2^-16; 2^-y by lines between 129
 * powers, in steps of 2^-bits; outputs have the scale 2^-15. */
typedef struct {
    int32_t channels, multiplier, shift, bits;
    const int32_t *powers; /* [129]: 2^30 * 2^(-i / 128) */
} cortado_softmax_s16_t;

void cortado_softmax_s16(const cortado_softmax_s16_t *L, const int16_t *in, int16_t *out, int32_t pixels);
/* The same over those of a row's `length` values whose bit in `mask` is 0, or whose byte in `kept` is not 0; the others
 * give 0. Row r has the mask of row r % kept_rows; bits begin with a byte of their own, lowest first. Of a row that is
 * masked whole, that is left which `weaker` (NULL, or row r % weaker_rows of it) keeps: equal parts or, if `nothing` is
 * 32768, their softmax. If that is nothing either all give 0 (with `zeros` and `weaker`), or the code `nothing`, or if
 * that is 32768 the row is the softmax of all its values. May be in place of `in`. */
typedef struct {
    int32_t rows, length, kept_rows, weaker_rows, zeros, nothing;
    int32_t multiplier, shift, bits;
    const uint8_t *mask;
    const int32_t *powers;
} cortado_masked_softmax_s16_t;

void cortado_masked_softmax_s16(const cortado_masked_softmax_s16_t *L, const int16_t *in, int16_t *out, int32_t rows);
void cortado_kept_softmax_s16(const cortado_masked_softmax_s16_t *L, const int16_t *in, const int8_t *kept,
                              const int8_t *weaker, int16_t *out);

/* Logarithm of softmax: out = clamp(-((y * 2^4 + log2(sum of 2^-y) * 2^20) * out_multiplier / 2^out_right)), ties up,
 * with y as softmax has it and the logarithm truncated; out_multiplier has 24 bits. Over all of a row, or over what
 * `kept` keeps of it (row r % kept_rows); the others give -32768. May be in place of `in`. */
typedef struct {
    int32_t rows, length, kept_rows;
    int32_t multiplier, shift, bits;
    int32_t out_multiplier, out_right;
    const int32_t *powers;
} cortado_log_softmax_s16_t;

void cortado_log_softmax_s16(const cortado_log_softmax_s16_t *L, const int16_t *in, int16_t *out, int32_t rows);
void cortado_kept_log_softmax_s16(const cortado_log_softmax_s16_t *L, const int16_t *in, const int8_t *kept,
                                  int16_t *out);

/* ---- Pooling ----------------------------------------------------------------------------------------------- */

/* Average: sum over the window INSIDE the image, divided by the number of pixels there, ties away from zero.
 * Maximum: over the window inside the image. Both clamp to [act_min, act_max]. */
typedef struct {
    int32_t in_w, channels, out_w;
    int32_t kernel_h, kernel_w;
    int32_t stride_w, pad_left, dilation_w; /* dilation: maximum only */
    int32_t act_min, act_max;
} cortado_pool2d_t;

void cortado_avg_pool2d_s8(const cortado_pool2d_t *L, const int8_t *const rows[], int8_t *out, void *scratch);
void cortado_max_pool2d_s8(const cortado_pool2d_t *L, const int8_t *const rows[], int8_t *out);
/* The same of 16 bits: rows are pointers to int16_t. */
void cortado_avg_pool2d_s16(const cortado_pool2d_t *L, const int8_t *const rows[], int16_t *out, void *scratch);
void cortado_max_pool2d_s16(const cortado_pool2d_t *L, const int8_t *const rows[], int16_t *out);
/* For kernel_h * kernel_w <= 256; __dsp for at least 4 channels. No scratch. */
void cortado_avg_pool2d_s8__dsp(const cortado_pool2d_t *L, const int8_t *const rows[], int8_t *out, void *scratch);
void cortado_avg_pool2d_s8__mve(const cortado_pool2d_t *L, const int8_t *const rows[], int8_t *out, void *scratch);
/* For at least 4 channels. */
void cortado_max_pool2d_s8__dsp(const cortado_pool2d_t *L, const int8_t *const rows[], int8_t *out);
void cortado_max_pool2d_s8__mve(const cortado_pool2d_t *L, const int8_t *const rows[], int8_t *out);

/* Global average, row by row: acc[c] += the sum over `pixels` pixels of channel c; then divide by `count`. */
void cortado_sum_rows_s8(int32_t *acc, const int8_t *in, int32_t pixels, int32_t channels);
void cortado_sum_rows_s8__dsp(int32_t *acc, const int8_t *in, int32_t pixels, int32_t channels);
void cortado_sum_rows_s8__mve(int32_t *acc, const int8_t *in, int32_t pixels, int32_t channels);
void cortado_means_s8(const int32_t *acc, int8_t *out, int32_t channels, int32_t count);
/* For counts up to 5770. */
void cortado_means_s8__mve(const int32_t *acc, int8_t *out, int32_t channels, int32_t count);

/* The average over one window that starts at the image's first pixel, one input row per call: row y of kernel_h rows.
 * scratch holds the sums, 4 * channels bytes, from the first call to the last, which writes the output pixel. */
typedef void (*cortado_sum_rows_t)(int32_t *acc, const int8_t *in, int32_t pixels, int32_t channels);
typedef void (*cortado_means_t)(const int32_t *acc, int8_t *out, int32_t channels, int32_t count);
void cortado_global_avg_pool_s8(const cortado_pool2d_t *L, const int8_t *row, int8_t *out, void *scratch, int32_t y,
                                cortado_sum_rows_t sum_rows, cortado_means_t means);
int32_t cortado_global_avg_pool_s8_scratch(const cortado_pool2d_t *L);

/* The mean over the first `rows` rows, one per call as above: out = clamp(requant(start + sum of x) + out_offset).
 * start is the number of pixels times the input offset, and the multiplier divides by that number. */
typedef struct {
    int32_t rows, in_w, channels;
    int32_t start, out_offset, multiplier, shift;
} cortado_global_mean_t;

void cortado_global_mean_s8(const cortado_global_mean_t *L, const int8_t *row, int8_t *out, void *scratch, int32_t y,
                            cortado_sum_rows_t sum_rows);
int32_t cortado_global_mean_s8_scratch(const cortado_global_mean_t *L);
/* The 16-bit variant: zero points are 0; the same scratch. */
void cortado_global_mean_s16(const cortado_global_mean_t *L, const int16_t *row, int16_t *out, void *scratch,
                             int32_t y);

/* The same over the last `rows` rows of an endless sequence, after every row: y is 0 for the first and for no other.
 * The first rows - 1 results are none. in_w is at most 255. Scratch is kept from call to call. */
void cortado_running_mean_s8(const cortado_global_mean_t *L, const int8_t *row, int8_t *out, void *scratch, int32_t y,
                             cortado_sum_rows_t sum_rows);
int32_t cortado_running_mean_s8_scratch(const cortado_global_mean_t *L);
/* The 16-bit variant: zero points are 0; any in_w. */
void cortado_running_mean_s16(const cortado_global_mean_t *L, const int16_t *row, int16_t *out, void *scratch,
                              int32_t y);
int32_t cortado_running_mean_s16_scratch(const cortado_global_mean_t *L);

/* ---- Elementwise ------------------------------------------------------------------------------------------- */

/* "In place" is: the output starts where an operand starts, or anywhere before it. All of these may be. */

/* a' = requant((a - a_zero) << 20, a_multiplier, a_shift), b' alike;
 * out = clamp(requant(a' + b', out_multiplier, out_shift) + out_zero).
 * (Zero points are natural, not negated.) */
typedef struct {
    int32_t a_multiplier, b_multiplier, out_multiplier;
    int8_t a_zero, b_zero, out_zero;
    int8_t a_shift, b_shift, out_shift;
    int8_t act_min, act_max;
} cortado_add_t;

CORTADO_AT(cortado_add_t, a_multiplier, CORTADO_ADD_A_MULTIPLIER);
CORTADO_AT(cortado_add_t, b_multiplier, CORTADO_ADD_B_MULTIPLIER);
CORTADO_AT(cortado_add_t, out_multiplier, CORTADO_ADD_OUT_MULTIPLIER);
CORTADO_AT(cortado_add_t, a_zero, CORTADO_ADD_A_ZERO);
CORTADO_AT(cortado_add_t, b_zero, CORTADO_ADD_B_ZERO);
CORTADO_AT(cortado_add_t, out_zero, CORTADO_ADD_OUT_ZERO);
CORTADO_AT(cortado_add_t, a_shift, CORTADO_ADD_A_SHIFT);
CORTADO_AT(cortado_add_t, b_shift, CORTADO_ADD_B_SHIFT);
CORTADO_AT(cortado_add_t, out_shift, CORTADO_ADD_OUT_SHIFT);
CORTADO_AT(cortado_add_t, act_min, CORTADO_ADD_ACT_MIN);
CORTADO_AT(cortado_add_t, act_max, CORTADO_ADD_ACT_MAX);

void cortado_add_s8(const cortado_add_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n);
/* b holds one value per channel, for every pixel of a; n = pixels * channels. _any for shifts to the left too. */
void cortado_add_channel_s8(const cortado_add_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n,
                            int32_t channels);
void cortado_add_channel_s8__mve(const cortado_add_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n,
                                 int32_t channels);
void cortado_add_channel_any_s8(const cortado_add_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n,
                                int32_t channels);
/* For b with the factor 1/2 exactly (multiplier 2^30, shift 0: the operand with the larger scale), a_shift <= 0 and
 * out_shift <= 0, __mve < 0. __scalar and __dsp for no clamp but [-128, 127]; __scalar not on Armv6-M and Armv8-M
 * Baseline. */
void cortado_add_s8__scalar(const cortado_add_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n);
void cortado_add_s8__dsp(const cortado_add_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n);
void cortado_add_s8__mve(const cortado_add_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n);
/* The same of 16 bits, whose zero points are 0: a * 2^13 instead of (a - a_zero) * 2^20. */
typedef struct {
    int32_t a_multiplier, a_shift, b_multiplier, b_shift, out_multiplier, out_shift, act_min, act_max;
} cortado_add_s16_t;

void cortado_add_s16(const cortado_add_s16_t *L, const int16_t *a, const int16_t *b, int16_t *out, int32_t n);
void cortado_add_channel_s16(const cortado_add_s16_t *L, const int16_t *a, const int16_t *b, int16_t *out, int32_t n,
                             int32_t channels);

/* out = clamp(requant((a - a_zero) * (b - b_zero), out_multiplier, out_shift) + out_zero). May be in place. */
typedef struct {
    int32_t a_zero, b_zero;
    int32_t out_zero, out_multiplier, out_shift;
    int32_t act_min, act_max;
} cortado_mul_t;

/* The 16-bit variant: zero points are 0; out = clamp(requant(a * b, multiplier, -right)). */
typedef struct {
    int32_t multiplier, right;
    int32_t act_min, act_max;
} cortado_mul_s16_t;

void cortado_mul_s16(const cortado_mul_s16_t *L, const int16_t *a, const int16_t *b, int16_t *out, int32_t n);
void cortado_mul_channel_s16(const cortado_mul_s16_t *L, const int16_t *a, const int16_t *b, int16_t *out, int32_t n,
                             int32_t channels);

CORTADO_AT(cortado_mul_t, a_zero, CORTADO_MUL_A_ZERO);
CORTADO_AT(cortado_mul_t, b_zero, CORTADO_MUL_A_ZERO + 4);
CORTADO_AT(cortado_mul_t, out_zero, CORTADO_MUL_A_ZERO + 8);
CORTADO_AT(cortado_mul_t, out_multiplier, CORTADO_MUL_A_ZERO + 12);
CORTADO_AT(cortado_mul_t, out_shift, CORTADO_MUL_A_ZERO + 16);
CORTADO_AT(cortado_mul_t, act_min, CORTADO_MUL_A_ZERO + 20);
CORTADO_AT(cortado_mul_t, act_max, CORTADO_MUL_A_ZERO + 24);

void cortado_mul_s8(const cortado_mul_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n);
/* b holds one value per channel, for every pixel of a; n = pixels * channels. */
void cortado_mul_channel_s8(const cortado_mul_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n,
                            int32_t channels);
/* For -20 <= out_shift < 0 and all of int8. */
void cortado_mul_channel_s8__dsp(const cortado_mul_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n,
                                 int32_t channels);
/* For out_shift < 0. */
void cortado_mul_s8__mve(const cortado_mul_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n);
void cortado_mul_channel_s8__mve(const cortado_mul_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n,
                                 int32_t channels);

/* out = clamp(round_half_away(((a - a_zero) / (b - b_zero)) * factor) + out_zero), float32, unfused; a quotient with
 * denominator 0 is 0. factor = s_a / (s_b * s_out). May be in place. */
typedef struct {
    int32_t a_zero, b_zero, out_zero;
    float factor;
    int32_t act_min, act_max;
} cortado_div_t;

CORTADO_AT(cortado_div_t, a_zero, CORTADO_DIV_A_ZERO);
CORTADO_AT(cortado_div_t, b_zero, CORTADO_DIV_A_ZERO + 4);
CORTADO_AT(cortado_div_t, out_zero, CORTADO_DIV_A_ZERO + 8);
CORTADO_AT(cortado_div_t, factor, CORTADO_DIV_A_ZERO + 12);
CORTADO_AT(cortado_div_t, act_min, CORTADO_DIV_A_ZERO + 16);
CORTADO_AT(cortado_div_t, act_max, CORTADO_DIV_A_ZERO + 20);

void cortado_div_s8(const cortado_div_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n);
void cortado_div_s8__mve(const cortado_div_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n);
void cortado_div_s16(const int16_t *a, const int16_t *b, int16_t *out, int32_t n, float factor);

/* On raw codes: both operands and the output share scale and zero point. May be in place. */
void cortado_minimum_s16(const int16_t *a, const int16_t *b, int16_t *out, int32_t n);
void cortado_maximum_s16(const int16_t *a, const int16_t *b, int16_t *out, int32_t n);
void cortado_minimum_s8(const int8_t *a, const int8_t *b, int8_t *out, int32_t n);
void cortado_minimum_s8__dsp(const int8_t *a, const int8_t *b, int8_t *out, int32_t n);
void cortado_minimum_s8__mve(const int8_t *a, const int8_t *b, int8_t *out, int32_t n);
void cortado_maximum_s8(const int8_t *a, const int8_t *b, int8_t *out, int32_t n);
void cortado_maximum_s8__dsp(const int8_t *a, const int8_t *b, int8_t *out, int32_t n);
void cortado_maximum_s8__mve(const int8_t *a, const int8_t *b, int8_t *out, int32_t n);

/* Softmax over the last dimension, output scale 1/256 and zero point -128. Differences to the row's largest value
 * below diff_min (which is <= 0) give -128. May be in place. */
typedef struct {
    int32_t in_multiplier, in_shift, diff_min;
    const int32_t *exp_table; /* softmax_table: exp of the differences 0, -1, ... down to diff_min, then a 0; at most
                                 256 entries */
} cortado_softmax_t;

void cortado_softmax_s8(const cortado_softmax_t *L, const int8_t *in, int8_t *out, int32_t rows, int32_t n);
/* The same bits from a table made at compile time: faster, and no exponential in the program. */
void cortado_softmax_table_s8(const cortado_softmax_t *L, const int8_t *in, int8_t *out, int32_t rows, int32_t n);
void cortado_softmax_table_s8__mve(const cortado_softmax_t *L, const int8_t *in, int8_t *out, int32_t rows, int32_t n);

/* Softmax over those of a row's `length` values whose bit in `mask` is 0; the others give -128. Row r has the mask of
 * row r % mask_rows, which begins with a byte of its own, lowest bits first. Of a row that is masked whole all values
 * give the code `nothing`; if that is 128, it is the softmax of all of them, by `rounded` (256 codes, from that of -128
 * on) where there is one. `softmax` makes a row: cortado_softmax_table_s8 or a variant. May be in place. */
typedef struct {
    int32_t length, mask_rows, nothing, diff_min;
    const uint8_t *mask;
    const int8_t *rounded;
    const int32_t *exp_table; /* as softmax's */
} cortado_masked_softmax_t;

void cortado_masked_softmax_s8(const cortado_masked_softmax_t *L, const int8_t *in, int8_t *out, int32_t rows,
                               void (*softmax)(const cortado_softmax_t *, const int8_t *, int8_t *, int32_t, int32_t));

/* The same with a computed mask: kept are the values whose byte in `kept` is not 0. Row r has the mask of row
 * r % kept_rows. May be in place of `in`. */
typedef struct {
    int32_t rows, length, kept_rows, weaker_rows, zeros, nothing, diff_min;
    const int8_t *rounded;
    const int32_t *exp_table; /* as softmax's */
} cortado_kept_softmax_t;

void cortado_kept_softmax_s8(const cortado_kept_softmax_t *L, const int8_t *in, const int8_t *kept, int8_t *out,
                             void (*softmax)(const cortado_softmax_t *, const int8_t *, int8_t *, int32_t, int32_t));

/* Of a row of which `kept` keeps nothing, those that `weaker` (row r % weaker_rows of it) keeps have equal parts or,
 * if `nothing` is 128, the softmax of their (rounded) codes; the others give -128. If that is nothing either, all give
 * -128 (with `zeros`), or the row is as above. */
void cortado_weaker_softmax_s8(const cortado_kept_softmax_t *L, const int8_t *in, const int8_t *kept,
                               const int8_t *weaker, int8_t *out,
                               void (*softmax)(const cortado_softmax_t *, const int8_t *, int8_t *, int32_t, int32_t));

/* Logarithm of softmax over the last dimension: out = clamp(out_zero - round(((largest - x) * slope + log(sum)) /
 * 2^fraction_bits)), where log(sum) = requant(its base-2 logarithm with 20 fractional bits). May be in place. */
typedef struct {
    int32_t diff_min, slope;
    int32_t log_multiplier, log_shift, fraction_bits;
    int32_t out_zero, act_min, act_max;
    const int32_t *exp_table; /* as softmax's */
} cortado_log_softmax_t;

void cortado_log_softmax_s8(const cortado_log_softmax_t *L, const int8_t *in, int8_t *out, int32_t rows, int32_t n);
void cortado_log_softmax_s8__mve(const cortado_log_softmax_t *L, const int8_t *in, int8_t *out, int32_t rows,
                                 int32_t n);

/* The same over those of a row's `length` values whose byte in `kept` is not 0; the others give -128. Row r has the
 * mask of row r % kept_rows. May be in place of `in`. */
typedef struct {
    int32_t rows, length, kept_rows;
    int32_t diff_min, slope;
    int32_t log_multiplier, log_shift, fraction_bits;
    int32_t out_zero, act_min, act_max;
    const int32_t *exp_table; /* as softmax's */
} cortado_kept_log_softmax_t;

void cortado_kept_log_softmax_s8(const cortado_kept_log_softmax_t *L, const int8_t *in, const int8_t *kept,
                                 int8_t *out);

/* Normalization by a group's own mean and variance (or, not `centered`, by its mean square): a sample is `groups`
 * groups of `channels` * `pixels` values. With n values in a group,
 *   variance = shifted(n * sum(q^2) - sum^2, variance_shift) + epsilon = mantissa * 4^x, mantissa in [2^30, 2^32)
 *   out = clamp((high(d * high(scale[c] * root)) + offset[c]) >> fraction_bits), d = (n * q - sum) * 2^(exponent - x),
 * where root = 2^45 / sqrt(mantissa), and high(a * b) = (a * b + 2^30) >> 31. May be in place. */
typedef struct {
    int32_t groups, channels, pixels;     /* per sample, per group, per channel */
    int32_t channel_stride, pixel_stride; /* bytes from one channel, one pixel to the next */
    int32_t centered, in_zero;
    int32_t epsilon_high, epsilon_low;    /* epsilon = epsilon_high * 2^31 + epsilon_low */
    int32_t variance_shift, exponent, fraction_bits;
    int32_t act_min, act_max;
    int32_t by_channel;                   /* 1: scale and offset hold a number per channel; 0: one for all */
    const int32_t *scale, *offset;
} cortado_normalize_t;

void cortado_normalize_s8(const cortado_normalize_t *L, const int8_t *in, int8_t *out, int32_t samples);
void cortado_normalize_s8__mve(const cortado_normalize_t *L, const int8_t *in, int8_t *out, int32_t samples);
/* Of 16 bits, with in_zero 0: groups of at most 2^16; what would be shifted to the left by less than 0 bits is shifted
 * to the right. */
void cortado_normalize_s16(const cortado_normalize_t *L, const int16_t *in, int16_t *out, int32_t samples);

/* One number for each row of `length` values. In all of them a 62-bit sum is shifted left by an even number of bits
 * until it has 61 or 62, and root is the integer square root of that: sqrt(sum) = root / 2^(left / 2).
 *
 * Variance: sum = n * sum(q^2) - sum(q)^2; out = clamp(out_zero + sum * out_multiplier * 2^(out_shift - 31)), of its
 * upper 31 bits, or, with `root`, the same of its square root. */
typedef struct {
    int32_t length, root;
    int32_t out_zero, out_multiplier, out_shift;
} cortado_variance_t;

void cortado_variance_s8(const cortado_variance_t *L, const int8_t *in, int8_t *out, int32_t rows);
/* The 16-bit variant: out_zero is 0; rows of at most 2^16 values. */
void cortado_variance_s16(const cortado_variance_t *L, const int16_t *in, int16_t *out, int32_t rows);

/* Spectra in bands of frames of 16-bit samples. A row is a block of `block` samples; a frame's first sample is number
 * `skip` of its first row. Of the frame's spectrum X, with a window of 1 as 2^24 and the samples shifted left by s bits
 * (as many as all of them have to spare, at most `headroom`; with emphasis, each is first less that part of the sample
 * before it, 0 where that lies in a row that is NULL, and halved; then `skip` is at least 1), band b is acc = sum of
 * weight * |X|^power over `counts[b]` bins from `starts[b]` on; weights are unsigned, 2^15 is 1. Then the floor, in
 * units of the largest s, is added, or is the least (`clamped`), and
 *   curve 0   out = requant((log2(acc) - power * s * 2^16 + offset) << 7), of 16 fractional bits
 *   curve 1   out = acc * out_multiplier * 2^(out_shift - 31 - power * s), of its upper 31 bits
 *   curve 2   the same of its square root
 * plus out_zero, clamped. The FFT is of `pairs` complex numbers, in stages of radix[0], radix[1] ...: `places` has
 * where the first one puts its results, `twiddles` and `turns` cosines (the lower halves) and sines, negated, of the
 * later stages and of the last step to the spectrum of reals. The kernels for one kind of core have window, places,
 * twiddles and weights in the order in which they read them: spectrum_loops_s16__scalar_dsp.h and
 * spectrum_loops_s16__mve.h. */
typedef struct {
    int32_t block, skip, window_length;
    int32_t pairs, bins, bands; /* bins that are read */
    int32_t power, curve, clamped, headroom;
    int32_t floor_high, floor_low; /* floor_high * 2^31 + floor_low */
    int32_t offset;
    int32_t out_multiplier, out_shift, out_zero, act_min, act_max;
    int32_t wide; /* 1: out holds 16-bit codes */
    int32_t stages;
    int8_t radix[8];
    const int16_t *places;
    const int32_t *twiddles, *turns;
    const int32_t *window; /* [window_length], and one more of an odd number */
    const int16_t *starts, *counts, *weights;
    const int16_t *roots;      /* of magnitudes: min(65535, 4096 * sqrt(i)), i = 64 ... 256 */
    const int16_t *logarithms; /* of curve 0: 65536 * log2(1 + i / 128), i = 0 ... 128, modulo 2^16 */
    int32_t emphasis;          /* 2^15 is 1; 0: none. Behind the pointers: those are among the first 32 words */
} cortado_spectrum_t;

void cortado_spectrum_s16(const cortado_spectrum_t *L, const int8_t *const rows[], int8_t *out, void *scratch);
void cortado_spectrum_s16__scalar(const cortado_spectrum_t *L, const int8_t *const rows[], int8_t *out, void *scratch);
void cortado_spectrum_s16__dsp(const cortado_spectrum_t *L, const int8_t *const rows[], int8_t *out, void *scratch);
void cortado_spectrum_s16__mve(const cortado_spectrum_t *L, const int8_t *const rows[], int8_t *out, void *scratch);
int32_t cortado_spectrum_s16_scratch(const cortado_spectrum_t *L);
int32_t cortado_spectrum_s16__mve_scratch(const cortado_spectrum_t *L);

/* out = clamp(x - offset), of integers of 1 or 2 bytes, with a sign or without. */
typedef struct {
    int32_t channels, offset, bytes, sign;
} cortado_samples_t;

void cortado_samples_s16(const cortado_samples_t *L, const int8_t *in, int16_t *out, int32_t pixels);

/* Samples [channels, samples] through second-order sections, one after the other; coefficients have 30 fractional bits,
 * b0, b1, b2, a1, a2 of each section. u = sample << 13 goes into the first, y of each into the next:
 *   v = b0 * u + b1 * u1 + b2 * u2 - a1 * y1 - a2 * y2 + rest, y = clamp(v >> 30, -2^29, 2^29 - 1), rest = v mod 2^30
 *   out = clamp(requant(y))
 * u1, u2, y1, y2 and rest are the state [channels, sections, 5]: that before the first sample (NULL: zeros), and that
 * after the last, in which the kernel works. Without `out` there is the state alone. */
typedef struct {
    int32_t channels, samples, sections;
    int32_t out_multiplier, out_shift, act_min, act_max;
    const int32_t *coefficients;
} cortado_filter_t;

void cortado_filter_s16(const cortado_filter_t *L, const int16_t *in, const int32_t *before, int16_t *out,
                        int32_t *after);
int32_t cortado_filter_s16_scratch(const cortado_filter_t *L);

/* out = clamp(out_zero + requant(sum(a * b) * 2^24 / sqrt(max(sum(a^2), a_least) * max(sum(b^2), b_least)))), of codes
 * without their zero points; the quotient is rounded, ties away from zero. */
typedef struct {
    int32_t length;
    int32_t a_zero, a_least, b_zero, b_least; /* least: at least 1 */
    int32_t out_zero, out_multiplier, out_shift;
} cortado_cosine_similarity_t;

void cortado_cosine_similarity_s8(const cortado_cosine_similarity_t *L, const int8_t *a, const int8_t *b, int8_t *out,
                                  int32_t rows);
/* Of 16 bits: the root of each sum of squares has 31 bits, the divisor is the upper half of their product, and the
 * quotient is rescaled with one rounding, ties up. */
void cortado_cosine_similarity_s16(const cortado_cosine_similarity_t *L, const int16_t *a, const int16_t *b,
                                   int16_t *out, int32_t rows);

/* x = (a - a_zero) * a_multiplier, y = (b - b_zero) * b_multiplier, over rows of `length` values, at most 2^16;
 * out = clamp(out_zero + sqrt(squares) * out_multiplier * 2^(out_shift - 31)), where squares is
 * magnitude: sum(x^2) + sum(y^2) + start * 2^start_shift; b may be NULL: there is no y;
 * distance: sum((x - y + offset)^2). */
typedef struct {
    int32_t length;
    int32_t a_zero, a_multiplier, b_zero, b_multiplier, offset; /* multipliers: of 12 bits */
    int32_t start, start_shift;                                 /* below 2^61 together */
    int32_t out_zero, out_multiplier, out_shift;
} cortado_magnitude_t;

void cortado_magnitude_s8(const cortado_magnitude_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n);
void cortado_distance_s8(const cortado_magnitude_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t rows);

/* out[i] = clamp(out_zero + requant(sum << left_shift)), sum that of in[j] - in_zero for j <= i, along rows of `length`
 * values. May be in place. */
typedef struct {
    int32_t length, in_zero, left_shift;
    int32_t out_zero, out_multiplier, out_shift;
} cortado_cumsum_t;

CORTADO_AT(cortado_cumsum_t, length, CORTADO_CUMSUM_LENGTH);
CORTADO_AT(cortado_cumsum_t, in_zero, CORTADO_CUMSUM_LENGTH + 4);
CORTADO_AT(cortado_cumsum_t, left_shift, CORTADO_CUMSUM_LENGTH + 8);
CORTADO_AT(cortado_cumsum_t, out_zero, CORTADO_CUMSUM_LENGTH + 12);
CORTADO_AT(cortado_cumsum_t, out_multiplier, CORTADO_CUMSUM_LENGTH + 16);
CORTADO_AT(cortado_cumsum_t, out_shift, CORTADO_CUMSUM_LENGTH + 20);

void cortado_cumsum_s8(const cortado_cumsum_t *L, const int8_t *in, int8_t *out, int32_t rows);
void cortado_cumsum_s8__mve(const cortado_cumsum_t *L, const int8_t *in, int8_t *out, int32_t rows);
/* The 16-bit variant: out[i] = clamp(sum * out_multiplier * 2^(out_shift - 31)), rounded once, ties up. */
void cortado_cumsum_s16(const cortado_cumsum_t *L, const int16_t *in, int16_t *out, int32_t rows);

/* out[i] = table[in[i] + 128]: every unary function of one int8 tensor. Output may lie exactly over the input. */
void cortado_table_s8(const int8_t table[256], const int8_t *in, int8_t *out, int32_t n);
void cortado_table_s8__mve(const int8_t table[256], const int8_t *in, int8_t *out, int32_t n);
/* The 16-bit variant: table[i] is the value at code 128 * i - 32768, with straight lines between. */
void cortado_table_s16(const int16_t table[513], const int16_t *in, int16_t *out, int32_t n);

typedef struct {
    const int8_t *table; /* [256] */
} cortado_table_t;

typedef struct {
    const int16_t *table; /* [513] */
} cortado_table_s16_t;

/* The same where a function jumps or is steep: of codes 128 * i - 32768 and the next 127, whose parts[i] is not 0, the
 * values are those of exact behind 128 * (parts[i] - 1). */
typedef struct {
    const int16_t *table; /* [513] */
    const uint8_t *parts; /* [512] */
    const int16_t *exact; /* [128] for each part that has them */
} cortado_patched_s16_t;

void cortado_patched_s16(const cortado_patched_s16_t *L, const int16_t *in, int16_t *out, int32_t n);

/* A function of few values: values[i] for codes above ends[i - 1] and up to ends[i]; bytes (1 or 2) of an output. */
typedef struct {
    int32_t runs;
    const int16_t *ends;   /* [runs], the last is 32767 */
    const int16_t *values; /* [runs] */
} cortado_steps_s16_t;

void cortado_steps_s16(const cortado_steps_s16_t *L, const int16_t *in, int8_t *out, int32_t n, int32_t bytes);

/* Codes of 1 or 2 bytes in another scale: out = clamp(requant((x - in_zero) << up) + out_zero). In place where both
 * have the same size. */
typedef struct {
    int32_t in_bytes, out_bytes;
    int32_t in_zero, up, multiplier, shift, out_zero;
    int32_t act_min, act_max;
} cortado_requantize_t;

void cortado_requantize(const cortado_requantize_t *L, const void *in, void *out, int32_t n);

/* Codes of the same numbers in 16 bits: out = (x - in_zero) * 2^left, which fits. */
typedef struct {
    int32_t in_zero, left;
} cortado_widen_codes_t;

void cortado_widen_codes(const cortado_widen_codes_t *L, const int8_t *in, int16_t *out, int32_t n);

/* Codes of the same steps in 8 bits: out = clamp(x + out_zero). */
typedef struct {
    int32_t out_zero;
} cortado_limit_codes_t;

void cortado_limit_codes(const cortado_limit_codes_t *L, const int16_t *in, int8_t *out, int32_t n);

/* ---- Data movement --------------------------------------------------------------------------------------------- */

/* `height` runs of `width` bytes: row i goes from in + i * in_stride to out + i * out_stride. Concatenation, slices,
 * splits, repeats and a padding border are a few of these. The two must not overlap. */
void cortado_copy2d(const int8_t *in, int32_t in_stride, int8_t *out, int32_t out_stride, int32_t width,
                    int32_t height);

/* A slice of the channels, as cortado_copy2d reads it: `width` bytes from `offset` on, of every `in_stride` bytes. */
typedef struct {
    int32_t offset, in_stride, width;
} cortado_slice_t;

/* Concatenation: `outer` times, `width[i]` bytes of each of the `count` inputs in turn. */
typedef struct {
    int32_t count; /* 1 to 4 */
    int32_t width[4];
} cortado_cat_t;

void cortado_cat_s8(const cortado_cat_t *L, const int8_t *const in[], int8_t *out, int32_t outer);

/* The same with a table for inputs of another scale; no table: as they are. */
typedef struct {
    int32_t count; /* 1 to 4 */
    int32_t width[4];
    const int8_t *lut0, *lut1, *lut2, *lut3; /* [256], or NULL */
} cortado_cat_tables_t;

typedef void (*cortado_lookup_t)(const int8_t table[256], const int8_t *in, int8_t *out, int32_t n);
void cortado_cat_tables_s8(const cortado_cat_tables_t *L, const int8_t *const in[], int8_t *out, int32_t outer,
                           cortado_lookup_t lookup);

/* out[o][i] = in[o][index[i]] for `outer` groups of `in_bytes`, in runs of `inner` bytes: flips, rolls, reflections. */
typedef struct {
    int32_t count, inner, in_bytes;
    const int32_t *index; /* [count] */
} cortado_gather_t;

void cortado_gather_s8(const cortado_gather_t *L, const int8_t *in, int8_t *out, int32_t outer);

/* out[i0][i1]... = in[offset + i0 * stride[0] + i1 * stride[1] + ...]: permutation, and every other strided read (a
 * stride may be 0 or negative). shape is the OUTPUT's. */
typedef struct {
    int32_t rank; /* 1 to 6 */
    int32_t shape[6], stride[6];
    int32_t offset;
} cortado_transpose_t;

void cortado_transpose_s8(const cortado_transpose_t *L, const int8_t *in, int8_t *out);
void cortado_transpose_s8__mve(const cortado_transpose_t *L, const int8_t *in, int8_t *out);
/* The same of values of 2 or 4 `bytes`, by which they are aligned. */
void cortado_transpose_wide(const cortado_transpose_t *L, const void *in, void *out, int32_t bytes);

/* Constant padding: before[i] and after[i] elements of `value` around dimension i. Without an input (NULL) everything
 * is padding: a row above or below the image. */
typedef struct {
    int32_t rank; /* 1 to 6 */
    int32_t shape[6], before[6], after[6]; /* shape is the INPUT's */
    int32_t value;
} cortado_pad_t;

void cortado_pad_s8(const cortado_pad_t *L, const int8_t *in, int8_t *out);
/* The same of values of 2 or 4 `bytes`. */
void cortado_pad_wide(const cortado_pad_t *L, const void *in, void *out, int32_t bytes);

/* Nearest-neighbour upsampling by whole factors, one row: every pixel `factor_w` times. (The vertical choice is in the
 * choice of the row.) */
typedef struct {
    int32_t in_w, channels, factor_h, factor_w;
} cortado_upsample_t;

void cortado_upsample_nearest_s8(const cortado_upsample_t *L, const int8_t *row, int8_t *out);
/* The same over `rows` consecutive input rows, each `factor_h` times. */
void cortado_upsample_nearest_rows_s8(const cortado_upsample_t *L, const int8_t *in, int8_t *out, int32_t rows);

/* Bilinear resizing: out = (sum over the four neighbours of weight * code + 2^21) >> 22. `rows` says for every output
 * row where it lies among the input's, in steps of 1/2048, `columns` for every column; the weights are what is left
 * between the neighbours. Where the fraction is 0 the next one is not read. */
typedef struct {
    int32_t images, in_h, in_w, channels, out_h, out_w;
    int32_t shift_h; /* row by row: output row y reads only rows beside row y >> shift_h */
    const int32_t *rows, *columns;
} cortado_bilinear_t;

CORTADO_AT(cortado_bilinear_t, channels, CORTADO_BILINEAR_CHANNELS);
CORTADO_AT(cortado_bilinear_t, out_w, CORTADO_BILINEAR_OUT_W);
CORTADO_AT(cortado_bilinear_t, columns, CORTADO_BILINEAR_COLUMNS);

/* One output row from the rows above, at and below y >> shift_h. */
void cortado_upsample_bilinear_s8(const cortado_bilinear_t *L, const int8_t *const rows[], int8_t *out, int32_t y);
void cortado_upsample_bilinear_all_s8(const cortado_bilinear_t *L, const int8_t *in, int8_t *out);
void cortado_upsample_bilinear_s8__mve(const cortado_bilinear_t *L, const int8_t *const rows[], int8_t *out, int32_t y);
void cortado_upsample_bilinear_all_s8__mve(const cortado_bilinear_t *L, const int8_t *in, int8_t *out);
void cortado_upsample_bilinear_s16(const cortado_bilinear_t *L, const int8_t *const rows[], int16_t *out, int32_t y);
void cortado_upsample_bilinear_all_s16(const cortado_bilinear_t *L, const int16_t *in, int16_t *out);

/* ---- Integers -------------------------------------------------------------------------------------------- */

/* out = x as int32: `bytes` is 1 or 2 for what lies in memory, `sign` is 0 where the byte has none. */
void cortado_widen(const int8_t *in, int32_t *out, int32_t n, int32_t bytes, int32_t sign);

/* out = x XOR 0x80: bytes of 0 to 255 as codes of -128 to 127. */
void cortado_flip_u8(const int8_t *in, int8_t *out, int32_t n);

/* out[i] = table[id[i]]: rows of `width` codes from a table of `count`. An id outside of it counts as 0 or count - 1;
 * built with CORTADO_ENABLE_RUNTIME_CHECKS, it calls cortado_check_failed. */
typedef struct {
    int32_t ids, count, width;
    const int8_t *table; /* [count][width] */
} cortado_embedding_t;

void cortado_embedding_s8(const cortado_embedding_t *L, const int32_t *ids, int8_t *out);
/* The same of 16 bits. */
typedef struct {
    int32_t ids, count, width;
    const int16_t *table;
} cortado_embedding_s16_t;

void cortado_embedding_s16(const cortado_embedding_s16_t *L, const int32_t *ids, int16_t *out);

/* The sum, or mean, of the rows of `ids` ids for each bag: out = clamp(requant(sum of (table[id] - table_zero), k) +
 * out_zero), ids that equal `padding` left out. k is the number of ids that were not, where there is a factor for each
 * number of them (`factors` = ids + 1), and 0 where there is one. */
typedef struct {
    int32_t bags, ids, count, width, padding, table_zero, out_zero, factors;
    const int8_t *table;                /* [count][width] */
    const int32_t *multiplier, *shift;  /* [factors] */
} cortado_embedding_bag_t;

void cortado_embedding_bag_s8(const cortado_embedding_bag_t *L, const int32_t *ids, int8_t *out);
/* The 16-bit variant: the sum times multiplier[k] * 2^(shift[k] - 31), rounded once, ties up. */
typedef struct {
    int32_t bags, ids, count, width, padding;
    int32_t factors;
    const int16_t *table;
    const int32_t *multiplier, *shift;
} cortado_embedding_bag_s16_t;

void cortado_embedding_bag_s16(const cortado_embedding_bag_s16_t *L, const int32_t *ids, int16_t *out);

/* out = clamp(requant(clamp(x, low, high)) + zero_point, -128, 127). */
typedef struct {
    int32_t low, high, multiplier, shift, zero_point;
} cortado_quantize_int_t;

void cortado_quantize_s32_s8(const cortado_quantize_int_t *L, const int32_t *in, int8_t *out, int32_t n);
/* out = clamp(in * multiplier * 2^(shift - 31)), ties up. */
void cortado_quantize_s32_s16(const int32_t *in, int16_t *out, int32_t n, int32_t multiplier, int32_t shift);

/* For each pixel the first of its channels that holds the largest code, or the smallest, and this code. Here and below
 * either of the two results may be NULL. */
void cortado_argmax_s8(const int8_t *in, int32_t *out, int32_t pixels, int32_t channels, int32_t largest,
                       int8_t *values);
void cortado_argmax_s16(const int16_t *in, int32_t *out, int32_t pixels, int32_t channels, int32_t largest,
                        int16_t *values);
/* For each pixel the `count` channels that hold the largest codes, or the smallest, the best first, and these codes; of
 * equal codes the first channel is the better. */
void cortado_topk_s8(const int8_t *in, int32_t *out, int32_t pixels, int32_t channels, int32_t count, int32_t largest,
                     int8_t *values);
void cortado_topk_s8__mve(const int8_t *in, int32_t *out, int32_t pixels, int32_t channels, int32_t count,
                          int32_t largest, int8_t *values);
void cortado_topk_s16(const int16_t *in, int32_t *out, int32_t pixels, int32_t channels, int32_t count, int32_t largest,
                      int16_t *values);
/* out = a and b, calculated modulo 2^32. An operand whose step is 0 is one number for all, otherwise its step is 1.
 * Quotients are rounded down and remainders have the divisor's sign; both are 0 where the divisor is. */
#define CORTADO_SUM 0
#define CORTADO_DIFFERENCE 1
#define CORTADO_PRODUCT 2
#define CORTADO_QUOTIENT 3
#define CORTADO_REMAINDER 4
#define CORTADO_SMALLER 5
#define CORTADO_LARGER 6
#define CORTADO_BOUNDED_SUM 7 /* only for a reduction */
#define CORTADO_AND 8
#define CORTADO_OR 9
#define CORTADO_XOR 10
#define CORTADO_LEFT 11 /* shifts; by less than 0 or more than 31 as by all bits */
#define CORTADO_RIGHT 12
void cortado_calculate_s32(const int32_t *a, const int32_t *b, int32_t *out, int32_t n, int32_t a_step, int32_t b_step,
                           int32_t how);
/* in[outer][length][inner] along its middle dimension: the sum modulo 2^32, the sum as near to it as 32 bits come, the
 * smallest or the largest, as `how` says; with `running` what it is up to each place. */
void cortado_reduce_s32(const int32_t *in, int32_t *out, int32_t outer, int32_t length, int32_t inner, int32_t how,
                        int32_t running);
/* out[p][j] = in[p][at[p][j]]; positions outside of a pixel count as its first or last channel. */
void cortado_pick_s8(const int8_t *in, const int32_t *at, int8_t *out, int32_t pixels, int32_t channels, int32_t count);
/* The same of values of several bytes. */
void cortado_pick_wide(const int8_t *in, const int32_t *at, int8_t *out, int32_t pixels, int32_t channels,
                       int32_t count, int32_t bytes);

/* ---- Truth values: 1 and 0 ------------------------------------------------------------------------------------ */

/* The outcomes that a comparison accepts. */
#define CORTADO_BELOW 1
#define CORTADO_EQUAL 2
#define CORTADO_ABOVE 4

/* out = requant((a - a_zero) << 20) beside requant((b - b_zero) << 20): 1 where they are as `accepts` says. */
typedef struct {
    int32_t a_zero, a_multiplier, a_shift, b_zero, b_multiplier, b_shift, accepts;
} cortado_compare_t;

void cortado_compare_s8(const cortado_compare_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n);
/* The 16-bit variant: zero points are 0. */
void cortado_compare_s16(const cortado_compare_t *L, const int16_t *a, const int16_t *b, int8_t *out, int32_t n);
/* The same for integers as they are. An operand whose step is 0 is one number for all, else it is 1. */
void cortado_compare_s32(const int32_t *a, const int32_t *b, int8_t *out, int32_t n, int32_t a_step, int32_t b_step,
                         int32_t accepts);

/* out = mask != 0 ? a : b. */
void cortado_where_s8(const int8_t *mask, const int8_t *a, const int8_t *b, int8_t *out, int32_t n);
/* out = number where (mask != 0) == taken, a elsewhere. */
void cortado_where_number_s8(const int8_t *mask, const int8_t *a, int8_t *out, int32_t n, int32_t number,
                             int32_t taken);

/* The same of values of 1, 2 or 4 bytes, by which they are aligned. An operand is one value for all where its step is
 * 0, else it is 1; `number` stands for one that is NULL. */
typedef struct {
    int32_t bytes, a_step, b_step, number;
} cortado_where_t;

void cortado_where(const cortado_where_t *L, const int8_t *mask, const void *a, const void *b, void *out, int32_t n);

/* ---- float32: IEEE operations one after the other, none fused, sums in ascending order ------------------------ */

/* sum = bias[oc], then + x * w tap by tap: rows, columns, channels of the window that lie in the image.
 * out = sum within act_min and act_max, which may be infinite. */
typedef struct {
    int32_t in_w, in_c;
    int32_t out_w, out_c;
    int32_t kernel_h, kernel_w;
    int32_t stride_w, pad_left, dilation_w;
    int32_t groups;
    float act_min, act_max;
    const float *weights; /* [out_c][kernel_h][kernel_w][in_c / groups] */
    const float *bias;    /* [out_c] */
} cortado_layer_f32_t;

/* rows: kernel_h pointers, NULL outside the image. */
void cortado_conv2d_f32(const cortado_layer_f32_t *L, const int8_t *const rows[], float *out);
/* A window of one tap without stride and padding, and one group, over `pixels` pixels: linear layers too. */
void cortado_conv1x1_f32(const cortado_layer_f32_t *L, const float *in, float *out, int32_t pixels);

/* The same with weights that are codes: sum = 0, then + x * w; out = sum * scale[oc] + bias[oc] within the bounds. */
typedef struct {
    int32_t in_w, in_c;
    int32_t out_w, out_c;
    int32_t kernel_h, kernel_w;
    int32_t stride_w, pad_left, dilation_w;
    int32_t groups;
    float act_min, act_max;
    const int8_t *weights; /* [out_c][kernel_h][kernel_w][in_c / groups] */
    const float *bias;     /* [out_c] */
    const float *scale;    /* [out_c] */
} cortado_layer_codes_f32_t;

void cortado_conv2d_codes_f32(const cortado_layer_codes_f32_t *L, const int8_t *const rows[], float *out);
void cortado_conv1x1_codes_f32(const cortado_layer_codes_f32_t *L, const float *in, float *out, int32_t pixels);

/* As cortado_layer_f32_t for one group, finite weights and biases that aren't -0: several outputs at once, each sum in
 * its order. */
typedef struct {
    int32_t in_w, in_c;
    int32_t out_w, out_c;
    int32_t kernel_h, kernel_w;
    int32_t stride_w, pad_left, dilation_w;
    float act_min, act_max;
    const void *weights; /* the variant's stream */
} cortado_layer_f32_packed_t;

void cortado_conv2d_f32__dsp(const cortado_layer_f32_packed_t *L, const int8_t *const rows[], float *out,
                             void *scratch);
void cortado_conv2d_f32__mve(const cortado_layer_f32_packed_t *L, const int8_t *const rows[], float *out,
                             void *scratch);
void cortado_conv1x1_f32__dsp(const cortado_layer_f32_packed_t *L, const float *in, float *out, int32_t pixels);
void cortado_conv1x1_f32__mve(const cortado_layer_f32_packed_t *L, const float *in, float *out, int32_t pixels);
/* One pixel, with less code. */
void cortado_linear_f32__dsp(const cortado_layer_f32_packed_t *L, const float *in, float *out, int32_t pixels);
int32_t cortado_conv2d_f32__dsp_scratch(const cortado_layer_f32_packed_t *L);
int32_t cortado_conv2d_f32__mve_scratch(const cortado_layer_f32_packed_t *L);

/* As cortado_layer_codes_f32_t for one group. */
void cortado_conv2d_codes_f32__dsp(const cortado_layer_f32_packed_t *L, const int8_t *const rows[], float *out,
                                   void *scratch);
void cortado_conv2d_codes_f32__mve(const cortado_layer_f32_packed_t *L, const int8_t *const rows[], float *out,
                                   void *scratch);
void cortado_conv1x1_codes_f32__dsp(const cortado_layer_f32_packed_t *L, const float *in, float *out, int32_t pixels);
void cortado_conv1x1_codes_f32__mve(const cortado_layer_f32_packed_t *L, const float *in, float *out, int32_t pixels);
int32_t cortado_conv2d_codes_f32__dsp_scratch(const cortado_layer_f32_packed_t *L);
int32_t cortado_conv2d_codes_f32__mve_scratch(const cortado_layer_f32_packed_t *L);

/* LSTM, GRU and RNN layers over all their steps: X of the input and H of the state before are linear layers with a row
 * for every unit of every gate, in torch's order.
 *
 *   LSTM  i, f, o = sigmoid(X + H), g = tanh(X + H), c = f * c + i * g, h = o * tanh(c)
 *   GRU   r, z = sigmoid(X + H), n = tanh(X + r * H), h = (h - n) * z + n
 *   RNN   h = tanh(X + H), or with relu */
typedef struct {
    int32_t in_c, units, steps, sequences;
    int32_t reverse;     /* the last step comes first */
    int32_t last_only;   /* out [..][units]: the state after the step that comes last */
    int32_t gives_cells; /* LSTM: the cells after every step; otherwise, if anywhere, after the one that comes last */
    int32_t has_cells;   /* it is an LSTM */
    int32_t no_states;   /* LSTM: h is not given */
    int32_t relu;        /* RNN */
    int32_t sums;        /* rows of a path: gates * units */
    int32_t together;    /* steps of the input whose X is computed at once */
    const void *path[2]; /* layers of X and H, as `gates` takes them */
} cortado_recurrent_f32_t;

/* One path of `steps` steps. */
typedef void (*cortado_gates_f32_t)(const void *path, const float *in, float *out, int32_t steps);

void cortado_gates_f32(const void *path, const float *in, float *out, int32_t steps);       /* cortado_layer_f32_t */
void cortado_gates_codes_f32(const void *path, const float *in, float *out, int32_t steps); /* .._layer_codes_f32_t */
/* cortado_layer_f32_packed_t */
void cortado_gates_f32__dsp(const void *path, const float *in, float *out, int32_t steps);
void cortado_gates_f32__mve(const void *path, const float *in, float *out, int32_t steps);
void cortado_gates_codes_f32__dsp(const void *path, const float *in, float *out, int32_t steps);
void cortado_gates_codes_f32__mve(const void *path, const float *in, float *out, int32_t steps);

/* start, start_cells: zeros if NULL. Of an LSTM's two outputs either may be NULL. */
void cortado_lstm_f32(const cortado_recurrent_f32_t *L, const float *in, const float *start, const float *start_cells,
                      float *out, float *cells, void *scratch, cortado_gates_f32_t gates);
void cortado_gru_f32(const cortado_recurrent_f32_t *L, const float *in, const float *start, float *out, void *scratch,
                     cortado_gates_f32_t gates);
void cortado_rnn_f32(const cortado_recurrent_f32_t *L, const float *in, const float *start, float *out, void *scratch,
                     cortado_gates_f32_t gates);
int32_t cortado_recurrent_f32_scratch(const cortado_recurrent_f32_t *L);

/* How several numbers become one, beside those of integers. */
#define CORTADO_MEAN 13

/* how: CORTADO_MEAN, the sum of the taps in the image by `divisor`, or where that is 0 by their number; CORTADO_LARGER:
 * the largest of them, NaN where there is one. */
typedef struct {
    int32_t in_w, channels, out_w;
    int32_t kernel_h, kernel_w;
    int32_t stride_w, pad_left, dilation_w;
    int32_t how, divisor;
    float act_min, act_max;
} cortado_pool2d_f32_t;

void cortado_pool2d_f32(const cortado_pool2d_f32_t *L, const int8_t *const rows[], float *out);

/* how: a comparison, with what it accepts in its lowest bits; 1 where it holds, else 0. One that accepts what is below
 * and above is the contrary of equality: NaN is unlike anything. */
#define CORTADO_COMPARISON 16

/* out = a + b, a - b, a * b, a / b, the smaller or the larger, or a comparison, within act_min and act_max. An operand
 * begins anew after `period` elements: 1 for a single number, that of channels for one number each; the smaller and the
 * larger of NaN and anything are NaN. */
typedef struct {
    int32_t how, a_period, b_period;
    float number; /* in the place of an operand that is NULL */
    float act_min, act_max;
} cortado_calculate_f32_t;

void cortado_calculate_f32(const cortado_calculate_f32_t *L, const float *a, const float *b, float *out, int32_t n);

/* The angle of (b, a), and a^b, in the same way. */
void cortado_atan2_f32(const cortado_calculate_f32_t *L, const float *a, const float *b, float *out, int32_t n);
void cortado_pow_f32(const cortado_calculate_f32_t *L, const float *a, const float *b, float *out, int32_t n);

/* The same of operands that lie in any way: an element of the output is at index i0, i1, ... of `shape`. */
typedef struct {
    int32_t how, rank;
    int32_t shape[6], a_stride[6], b_stride[6];
    float act_min, act_max;
} cortado_calculate_strided_t;

void cortado_calculate_strided_f32(const cortado_calculate_strided_t *L, const float *a, const float *b, float *out);

/* Functions of one number. */
typedef struct {
    float low, high; /* which may be infinite */
} cortado_bounds_f32_t;

void cortado_bounds_f32(const cortado_bounds_f32_t *L, const float *in, float *out, int32_t n);
void cortado_neg_f32(const float *in, float *out, int32_t n);
void cortado_sign_f32(const float *in, float *out, int32_t n);
void cortado_exp_f32(const float *in, float *out, int32_t n);
void cortado_exp2_f32(const float *in, float *out, int32_t n);
void cortado_expm1_f32(const float *in, float *out, int32_t n);
void cortado_sigmoid_f32(const float *in, float *out, int32_t n);
void cortado_tanh_f32(const float *in, float *out, int32_t n);
void cortado_erf_f32(const float *in, float *out, int32_t n);
void cortado_log_f32(const float *in, float *out, int32_t n);
void cortado_log2_f32(const float *in, float *out, int32_t n);
void cortado_log10_f32(const float *in, float *out, int32_t n);
void cortado_log1p_f32(const float *in, float *out, int32_t n);
void cortado_sqrt_f32(const float *in, float *out, int32_t n);
void cortado_rsqrt_f32(const float *in, float *out, int32_t n);
void cortado_reciprocal_f32(const float *in, float *out, int32_t n);
void cortado_sin_f32(const float *in, float *out, int32_t n);
void cortado_cos_f32(const float *in, float *out, int32_t n);
void cortado_tan_f32(const float *in, float *out, int32_t n);
void cortado_atan_f32(const float *in, float *out, int32_t n);
void cortado_asin_f32(const float *in, float *out, int32_t n);
void cortado_acos_f32(const float *in, float *out, int32_t n);
void cortado_trunc_f32(const float *in, float *out, int32_t n);
void cortado_floor_f32(const float *in, float *out, int32_t n);
void cortado_ceil_f32(const float *in, float *out, int32_t n);
void cortado_abs_f32(const float *in, float *out, int32_t n);
/* To the nearest integer, halves to the even one. */
void cortado_round_f32(const float *in, float *out, int32_t n);

/* The numbers in[o][0 .. length - 1][i] become one, out[o][i]: their sum, product, mean, the smallest or largest, from
 * the first to the last. With `running`, what they are after each. */
void cortado_reduce_f32(const float *in, float *out, int32_t outer, int32_t length, int32_t inner, int32_t how,
                        int32_t running);
/* The position of the smallest or largest of them, the first of equal ones; of NaN, if there is one. */
void cortado_position_f32(const float *in, int32_t *out, int32_t outer, int32_t length, int32_t inner, int32_t how);

/* out[batch][i][j] = the sum of a[batch][i][k] * b[batch][k][j] over k, upwards from 0. */
typedef struct {
    int32_t batches, rows, depth, columns;
} cortado_matmul_f32_t;

void cortado_matmul_f32(const cortado_matmul_f32_t *L, const float *a, const float *b, float *out);

/* out[i][j] = self[i][j] * weight + (the sum of factor[i][k] * rows[k][j] over k + other[i][j] * decay); `other` may be
 * NULL, and the output may lie where self or other does. */
typedef struct {
    int32_t rows, columns, depth;
    float weight, decay, rate;
} cortado_update_f32_t;

void cortado_update_f32(const cortado_update_f32_t *L, const float *self, const float *factor, const float *rows,
                        const float *other, float *out, float *moved);

/* e = exp(x - the largest); out = e / the sum of e, or (x - the largest) - log of that sum. */
void cortado_softmax_f32(const float *in, float *out, int32_t pixels, int32_t channels);
void cortado_log_softmax_f32(const float *in, float *out, int32_t pixels, int32_t channels);

/* out = mask != 0 ? a : b, of values of 4 bytes. An operand whose step is 0 is one value for all, else it is 1. */
void cortado_where_f32(const float *mask, const void *a, const void *b, void *out, int32_t n, int32_t a_step,
                       int32_t b_step);
void cortado_from_s32_f32(const int32_t *in, float *out, int32_t n);
/* Without its fraction; what leaves 32 bits is the nearest that doesn't, NaN is 0. */
void cortado_to_s32_f32(const float *in, int32_t *out, int32_t n);
void cortado_to_bool_f32(const float *in, int8_t *out, int32_t n);

/* Of each pixel the `count` best channels and their numbers, either of which may be NULL: the largest or smallest, of
 * equal ones the first. NaN is larger than all. */
void cortado_topk_f32(const float *in, int32_t *out, int32_t pixels, int32_t channels, int32_t count, int32_t largest,
                      float *values);

/* ---- Float border: float32, unfused -------------------------------------------------------------------------- */

/* out = clamp(round_half_even(x * (1.0f / scale)) + zero_point, -128, 127); NaN gives zero_point. */
void cortado_quantize_f32_s8(const float *in, int8_t *out, int32_t n, float scale, int32_t zero_point);
/* The same of 16 bits: from -32768 to 32767. */
void cortado_quantize_f32_s16(const float *in, int16_t *out, int32_t n, float scale, int32_t zero_point);
/* The same of bytes that stand for byte * gain[c] + offset[c], channels last: n bytes, c = i mod channels. In place if
 * need be. */
void cortado_quantize_u8_s8(const uint8_t *in, int8_t *out, int32_t n, int32_t channels, const float *gain,
                            const float *offset, float scale, int32_t zero_point);
/* out = (q - zero_point) * scale. */
void cortado_dequantize_s8_f32(const int8_t *in, float *out, int32_t n, float scale, int32_t zero_point);
void cortado_dequantize_s16_f32(const int16_t *in, float *out, int32_t n, float scale, int32_t zero_point);

#ifdef __cplusplus
}
#endif

#endif /* CORTADO_H */
