/* SPDX-License-Identifier: Apache-2.0
 *
 * Product of two computed matrices. The zero points leave the inner loop:
 * sum((a - za) * (b - zb)) = sum(a * b) - za * sum(b) - zb * sum(a) + depth * za * zb.
 */
#include "cortado.h"
#include "cortado_math.h"

static int32_t sum_of(const int8_t *v, int32_t n)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += v[i];
    }
    return sum;
}

static void finish(const cortado_batch_matmul_t *L, int32_t sum, int8_t *out)
{
    int32_t v = cortado_requant(sum, L->multiplier, L->shift) + L->out_zero;
    *out = (int8_t)cortado_clamp(v, L->act_min, L->act_max);
}

/* One column of the output, two rows at a time; `start` is what does not depend on the row. */
static void column(const cortado_batch_matmul_t *L, const int8_t *lhs, const int8_t *rhs, int32_t start, int8_t *out)
{
    const int32_t depth = L->depth;
    for (int32_t i = 0; i < L->rows; i += 2) {
        const int8_t *x0 = lhs + i * depth, *x1 = i + 1 < L->rows ? x0 + depth : x0;
        int32_t s0 = start, s1 = start;
        for (int32_t k = 0; k < depth; k++) {
            const int32_t w = rhs[k];
            s0 += x0[k] * w;
            s1 += x1[k] * w;
        }
        if (L->rhs_zero != 0) {
            s0 -= L->rhs_zero * sum_of(x0, depth);
            s1 -= L->rhs_zero * sum_of(x1, depth);
        }
        finish(L, s0, out + i * L->cols);
        if (x1 != x0) {
            finish(L, s1, out + (i + 1) * L->cols);
        }
    }
}

void cortado_batch_matmul_s8(const cortado_batch_matmul_t *L, const int8_t *lhs, const int8_t *rhs, int8_t *out,
                             void *scratch)
{
    (void)scratch;
    for (int32_t batch = 0; batch < L->batches; batch++) {
        for (int32_t j = 0; j < L->cols; j++) {
            const int32_t start = L->lhs_zero * (L->depth * L->rhs_zero - sum_of(rhs, L->depth));
            column(L, lhs, rhs, start, out + j);
            rhs += L->depth;
        }
        lhs += L->rows * L->depth;
        out += L->rows * L->cols;
    }
}
