/* SPDX-License-Identifier: Apache-2.0
 *
 * Product of two computed matrices. The zero points leave the inner loop:
 * sum((a - za) * (b - zb)) = sum(a * b) - za * sum(b) - zb * sum(a) + depth * za * zb.
 *
 * Tile: 8 rows x 1 column. Scratch: none.
 */
#include "cortado.h"
#include "cortado_dot.h"

/* Rows taken together, so that a column's sum serves them all. */
#define BLOCK 8

/* One column of up to BLOCK rows; starts[i] is what depends on the row alone. */
static void column(const cortado_batch_matmul_t *L, const int8_t *lhs, const int8_t *rhs, const int32_t starts[BLOCK],
                   int32_t rows, int8_t *out)
{
    const int32_t start = L->lhs_zero != 0 ? -L->lhs_zero * cortado_sum(rhs, L->depth) : 0;
    for (int32_t i = 0; i < rows; i++, lhs += L->depth, out += L->cols) {
        int32_t v = start + starts[i] + cortado_dot(lhs, rhs, L->depth);
        v = cortado_requant(v, L->multiplier, L->shift) + L->out_zero;
        *out = (int8_t)cortado_clamp(v, L->act_min, L->act_max);
    }
}

static void block(const cortado_batch_matmul_t *L, const int8_t *lhs, const int8_t *rhs, int32_t rows, int8_t *out)
{
    int32_t starts[BLOCK];
    for (int32_t i = 0; i < rows; i++) {
        starts[i] = L->rhs_zero * (L->depth * L->lhs_zero - cortado_sum(lhs + i * L->depth, L->depth));
    }
    for (int32_t j = 0; j < L->cols; j++) {
        column(L, lhs, rhs + j * L->depth, starts, rows, out + j);
    }
}

void cortado_batch_matmul_s8(const cortado_batch_matmul_t *L, const int8_t *lhs, const int8_t *rhs, int8_t *out,
                             void *scratch)
{
    (void)scratch;
    for (int32_t batch = 0; batch < L->batches; batch++) {
        for (int32_t i = 0; i < L->rows; i += BLOCK) {
            const int32_t rows = cortado_min(L->rows - i, BLOCK);
            block(L, lhs, rhs, rows, out);
            lhs += rows * L->depth;
            out += rows * L->cols;
        }
        rhs += L->cols * L->depth;
    }
}
