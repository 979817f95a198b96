/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers of 8-bit codes with 4-bit weights, two of them in a byte: for networks that have some (--weights int4).
 * Everything else is in cortado.h.
 *
 * A weight is factor * q, where q lies in [-7, 7] and is what is stored. The products of an output channel, in the
 * order kernel_h, kernel_w, in_c, come in runs of CORTADO_NARROW_RUN that have a factor each, 3 to 18; or their factors
 * are all 1, part of the multiplier:
 *
 *   sum = bias + sum over runs of factor * (sum of x * q over the run)    out = clamp(requant(sum) + out_offset)
 *
 * Biases hold the input's zero point. All of it is exact in 32 bits.
 */
#ifndef CORTADO_NARROW_H
#define CORTADO_NARROW_H

#include "cortado.h"

#define CORTADO_NARROW_RUN 32

/* The portable kernels': any window, one group. */
typedef struct {
    int32_t in_w, in_c, out_w, out_c;
    int32_t kernel_h, kernel_w;
    int32_t stride_w, pad_left, dilation_w;
    int32_t out_offset, act_min, act_max;
    const uint8_t *weights; /* [out_c][(products + 1) / 2]: the first of two in the lower half of a byte */
    const uint8_t *factors; /* [out_c][runs], or NULL: all are 1 */
    const int32_t *bias, *multiplier, *shift; /* [out_c] */
    const int8_t *zero;                       /* [in_c] codes of 0, of a window */
} cortado_narrow_t;

/* rows: kernel_h pointers, NULL outside of the image. */
void cortado_conv2d_narrow_s8(const cortado_narrow_t *L, const int8_t *const rows[], int8_t *out, void *scratch);
/* 1x1, stride 1, no padding: over `pixels` consecutive pixels. Also every linear layer. */
void cortado_conv1x1_narrow_s8(const cortado_narrow_t *L, const int8_t *in, int8_t *out, int32_t pixels, void *scratch);

/* Those of cores, with streams of their own; all shifts are to the right. _runs: with factors. __scalar: of small
 * cores. __dsp without factors: at most 4,096 products, of linear layers 65,536. */
void cortado_conv2d_narrow_s8__scalar(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                      void *scratch);
void cortado_conv1x1_narrow_s8__scalar(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                       void *scratch);
void cortado_conv2d_narrow_s8__dsp(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                   void *scratch);
void cortado_conv1x1_narrow_s8__dsp(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                    void *scratch);
void cortado_conv2d_narrow_s8__mve(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                   void *scratch);
void cortado_conv1x1_narrow_s8__mve(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                    void *scratch);
void cortado_conv2d_runs_s8__scalar(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                    void *scratch);
void cortado_conv1x1_runs_s8__scalar(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                     void *scratch);
void cortado_conv2d_runs_s8__dsp(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                 void *scratch);
void cortado_conv1x1_runs_s8__dsp(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                  void *scratch);
void cortado_conv2d_runs_s8__mve(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                 void *scratch);
void cortado_conv1x1_runs_s8__mve(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                  void *scratch);
/* Best for one pixel. */
void cortado_linear_narrow_s8__scalar(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                      void *scratch);
void cortado_linear_runs_s8__scalar(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                    void *scratch);
void cortado_linear_narrow_s8__dsp(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                   void *scratch);
void cortado_linear_runs_s8__dsp(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                 void *scratch);

int32_t cortado_conv2d_narrow_s8__scalar_scratch(const cortado_conv2d_packed_t *L);
int32_t cortado_conv2d_narrow_s8__dsp_scratch(const cortado_conv2d_packed_t *L);
int32_t cortado_conv2d_narrow_s8__mve_scratch(const cortado_conv2d_packed_t *L);
int32_t cortado_conv1x1_narrow_s8__scalar_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels);
int32_t cortado_conv1x1_narrow_s8__dsp_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels);
int32_t cortado_linear_narrow_s8__scalar_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels);
int32_t cortado_conv2d_runs_s8__scalar_scratch(const cortado_conv2d_packed_t *L);
int32_t cortado_conv2d_runs_s8__dsp_scratch(const cortado_conv2d_packed_t *L);
int32_t cortado_conv2d_runs_s8__mve_scratch(const cortado_conv2d_packed_t *L);
int32_t cortado_conv1x1_runs_s8__scalar_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels);
int32_t cortado_conv1x1_runs_s8__dsp_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels);
int32_t cortado_linear_runs_s8__scalar_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels);
int32_t cortado_linear_runs_s8__dsp_scratch(const cortado_conv1x1_packed_t *L, int32_t pixels);

/* Four rows of one path of a gate, each variant with a stream of its own: for recurrent layers, as cortado_gates_s8.
 * __dsp and __mve need |sum * 2^max(shift, 0)| < 2^30. */
const int8_t *cortado_gates_narrow_s8(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates);
const int8_t *cortado_gates_narrow_s8__dsp(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates);
const int8_t *cortado_gates_narrow_s8__mve(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates);
const int8_t *cortado_gates_runs_s8(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates);
const int8_t *cortado_gates_runs_s8__dsp(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates);
const int8_t *cortado_gates_runs_s8__mve(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates);

/* out[i] = table[id[i]] as cortado_embedding_t, of codes zero + factor * q: each `run` of a row have one factor. */
typedef struct {
    int32_t ids, count, width, run, zero;
    const uint8_t *table;   /* [count][(width + 1) / 2]: the first of two in the lower half of a byte */
    const uint8_t *factors; /* [count][(width + run - 1) / run] */
} cortado_embedding_narrow_t;

void cortado_embedding_narrow_s8(const cortado_embedding_narrow_t *L, const int32_t *ids, int8_t *out);

#endif /* CORTADO_NARROW_H */
