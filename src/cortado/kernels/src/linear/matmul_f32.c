/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of matrices in float32.
 *
 * Tile: 1 output. Scratch: none.
 */
#include "cortado_float.h"

void cortado_matmul_f32(const cortado_matmul_f32_t *L, const float *a, const float *b, float *out)
{
    for (int32_t batch = 0; batch < L->batches; batch++, b += L->depth * L->columns) {
        for (int32_t row = 0; row < L->rows; row++, a += L->depth) {
            for (int32_t column = 0; column < L->columns; column++) {
                float sum = 0.0f;
                for (int32_t k = 0; k < L->depth; k++) {
                    sum = sum + cortado_f32_mul(a[k], b[k * L->columns + column]);
                }
                *out++ = cortado_f32_canonical(sum);
            }
        }
    }
}
