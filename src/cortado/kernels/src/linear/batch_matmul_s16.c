/* SPDX-License-Identifier: Apache-2.0
 *
 * Product of two matrices of 16-bit codes, the second transposed, with 64-bit sums.
 *
 * Tile: 1 output. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

static int16_t product(const cortado_batch_matmul_s16_t *L, const int16_t *a, const int16_t *b)
{
    int64_t sum = 0;
    for (int32_t k = L->depth; k > 0; k--) {
        sum += *a++ * *b++;
    }
    sum = (sum + (((int64_t)1 << L->sum_shift) >> 1)) >> L->sum_shift;
    return (int16_t)cortado_clamp(cortado_requant((int32_t)sum, L->multiplier, L->shift), -32768, 32767);
}

void cortado_batch_matmul_s16(const cortado_batch_matmul_s16_t *L, const int16_t *lhs, const int16_t *rhs, int16_t *out,
                              void *scratch)
{
    (void)scratch;
    for (int32_t batch = 0; batch < L->batches; batch++, rhs += L->cols * L->depth) {
        for (int32_t row = 0; row < L->rows; row++, lhs += L->depth) {
            for (int32_t col = 0; col < L->cols; col++) {
                *out++ = product(L, lhs, rhs + col * L->depth);
            }
        }
    }
}
