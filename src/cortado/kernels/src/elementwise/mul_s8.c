/* SPDX-License-Identifier: Apache-2.0
 *
 * Multiplication of two tensors of one shape.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado_mul.h"

void cortado_mul_s8(const cortado_mul_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
{
    const cortado_factor_t factor = cortado_mul_factor(L);
    const int32_t a_zero = L->a_zero, b_zero = L->b_zero, zero = L->out_zero, low = L->act_min, high = L->act_max;
    for (int32_t i = 0; i < n; i++) {
        const int32_t v = cortado_scale((a[i] - a_zero) * (b[i] - b_zero), factor) + zero;
        out[i] = (int8_t)cortado_clamp(v, low, high);
    }
}
