/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of batch_matmul with DSP instructions: a run of columns of two rows. Internal. The stream is described
 * in matmul_lanes_s8__dsp.S.
 */
#ifndef MATMUL_LANES_S8_H
#define MATMUL_LANES_S8_H

/* Members of cortado_matmul_lanes_t, for the assembly. */
#define LANES_STREAM 0
#define LANES_X 4
#define LANES_DEPTH 8
#define LANES_STRIDE 12
#define LANES_EVEN 16
#define LANES_ODD 20
#define LANES_MULTIPLIER 24
#define LANES_SHIFT 28
#define LANES_OFFSET 32

#if !defined(__ASSEMBLER__)
#include "cortado.h"
#include "cortado_math.h"

typedef struct {
    int32_t *stream;
    int32_t *x;         /* two rows as halfwords, 4 bytes for each product */
    int32_t depth;
    int32_t stride;     /* from one row of the outputs to the next */
    int32_t even, odd;  /* factors of a row's sum, in the sums of even columns and of odd ones; odd is doubled */
    int32_t multiplier, shift; /* shift: to the right, at least 1 */
    int32_t offset;
} cortado_matmul_lanes_t;

CORTADO_AT(cortado_matmul_lanes_t, stream, LANES_STREAM);
CORTADO_AT(cortado_matmul_lanes_t, x, LANES_X);
CORTADO_AT(cortado_matmul_lanes_t, depth, LANES_DEPTH);
CORTADO_AT(cortado_matmul_lanes_t, stride, LANES_STRIDE);
CORTADO_AT(cortado_matmul_lanes_t, even, LANES_EVEN);
CORTADO_AT(cortado_matmul_lanes_t, odd, LANES_ODD);
CORTADO_AT(cortado_matmul_lanes_t, multiplier, LANES_MULTIPLIER);
CORTADO_AT(cortado_matmul_lanes_t, shift, LANES_SHIFT);
CORTADO_AT(cortado_matmul_lanes_t, offset, LANES_OFFSET);

#define LANES_PACKED (1024) /* bytes of columns */

/* Columns that are packed at a time, a multiple of four. */
static inline int32_t cortado_matmul_lanes_columns(const cortado_batch_matmul_t *L)
{
    const int32_t most = LANES_PACKED / cortado_round4(L->depth) / 4 * 4;
    return cortado_min(cortado_round4(L->cols), cortado_max(most, 16));
}

/* Two rows that lie behind one another, and at least one column. */
void cortado_matmul_lanes_s8__dsp(const cortado_matmul_lanes_t *T, const int8_t *lhs, int32_t cols, int8_t *out);
#endif

#endif /* MATMUL_LANES_S8_H */
