/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of batch_matmul with DSP or vector instructions: all columns of two rows. Internal.
 *
 * Zero points are in the sums' starts. A last column that is none of a whole tile's comes with those before it.
 */
#ifndef MATMUL_ROWS_S8_H
#define MATMUL_ROWS_S8_H

/* Members of cortado_matmul_rows_t, for the assembly. */
#define MATMUL_STARTS 0
#define MATMUL_COLS 4
#define MATMUL_DEPTH 8
#define MATMUL_FOURS 12
#define MATMUL_REST 16
#define MATMUL_ROW0 20
#define MATMUL_ROW1 24
#define MATMUL_MULTIPLIER 28
#define MATMUL_SHIFT 32
#define MATMUL_OFFSET 36

#if !defined(__ASSEMBLER__)
#include "cortado.h"
#include "cortado_math.h"

typedef struct {
    const int32_t *starts; /* the initial sum of each column */
    int32_t cols, depth;
    int32_t fours, rest; /* the depth as it is read: by four bytes, then by one */
    int32_t row0, row1;  /* what is added to the starts in either row */
    int32_t multiplier, shift; /* shift: to the right, at least 1 */
    int32_t offset;
} cortado_matmul_rows_t;

CORTADO_AT(cortado_matmul_rows_t, starts, MATMUL_STARTS);
CORTADO_AT(cortado_matmul_rows_t, cols, MATMUL_COLS);
CORTADO_AT(cortado_matmul_rows_t, depth, MATMUL_DEPTH);
CORTADO_AT(cortado_matmul_rows_t, fours, MATMUL_FOURS);
CORTADO_AT(cortado_matmul_rows_t, rest, MATMUL_REST);
CORTADO_AT(cortado_matmul_rows_t, row0, MATMUL_ROW0);
CORTADO_AT(cortado_matmul_rows_t, row1, MATMUL_ROW1);
CORTADO_AT(cortado_matmul_rows_t, multiplier, MATMUL_MULTIPLIER);
CORTADO_AT(cortado_matmul_rows_t, shift, MATMUL_SHIFT);
CORTADO_AT(cortado_matmul_rows_t, offset, MATMUL_OFFSET);

/* Rows of lhs and out lie behind one another. At least 2 columns; with vectors 4. */
void cortado_matmul_rows_s8__dsp(const cortado_matmul_rows_t *T, const int8_t *lhs, const int8_t *rhs, int8_t *out);
void cortado_matmul_rows_s8__mve(const cortado_matmul_rows_t *T, const int8_t *lhs, const int8_t *rhs, int8_t *out);
#endif

#endif /* MATMUL_ROWS_S8_H */
