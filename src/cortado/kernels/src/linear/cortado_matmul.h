/* SPDX-License-Identifier: Apache-2.0
 *
 * A product of two computed matrices by an inner loop that makes two rows of it. Internal. The zero points leave that
 * loop: sum((a - za) * (b - zb)) = sum(a * b) - za * sum(b) - zb * sum(a) + depth * za * zb.
 */
#ifndef CORTADO_MATMUL_H
#define CORTADO_MATMUL_H

#include "cortado_dot.h"
#include "matmul_rows_s8.h"

typedef void (*cortado_matmul_row_pair_t)(const cortado_matmul_rows_t *T, const int8_t *lhs, const int8_t *rhs,
                                          int8_t *out);

static inline void cortado_matmul(const cortado_batch_matmul_t *L, const int8_t *lhs, const int8_t *rhs, int8_t *out,
                                  int32_t *starts, cortado_matmul_row_pair_t two_rows)
{
    const int32_t depth = L->depth, both = depth * L->lhs_zero * L->rhs_zero;
    cortado_matmul_rows_t T;
    T.starts = starts;
    T.cols = L->cols;
    T.depth = depth;
    T.fours = depth / 4;
#if defined(CORTADO_ALIGNED_ONLY)
    T.fours = depth % 4 == 0 && ((uintptr_t)lhs | (uintptr_t)rhs) % 4 == 0 ? T.fours : 0;
#endif
    T.rest = depth - 4 * T.fours;
    T.multiplier = L->multiplier;
    T.shift = -L->shift;
    T.offset = L->out_zero;
    for (int32_t batch = 0; batch < L->batches; batch++) {
        for (int32_t j = 0; j < L->cols; j++) {
            starts[j] = L->lhs_zero != 0 ? both - L->lhs_zero * cortado_sum(rhs + j * depth, depth) : 0;
        }
        for (int32_t i = 0; i < L->rows; i += 2) {
            const int32_t row = cortado_min(i, L->rows - 2); /* an odd last one with the one before it */
            const int8_t *a = lhs + row * depth;
            T.row0 = L->rhs_zero != 0 ? -L->rhs_zero * cortado_sum(a, depth) : 0;
            T.row1 = L->rhs_zero != 0 ? -L->rhs_zero * cortado_sum(a + depth, depth) : 0;
            two_rows(&T, a, rhs, out + row * L->cols);
        }
        lhs += L->rows * depth;
        rhs += L->cols * depth;
        out += L->rows * L->cols;
    }
}

#endif /* CORTADO_MATMUL_H */
