/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons of two tensors of 16-bit codes.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_compare.h"

void cortado_compare_s16(const cortado_compare_t *L, const int16_t *a, const int16_t *b, int8_t *out, int32_t n)
{
    const int same = L->a_multiplier == L->b_multiplier && L->a_shift == L->b_shift;
    for (int32_t i = 0; i < n; i++) {
        int32_t left = a[i], right = b[i];
        if (!same) {
            left = cortado_requant(left * (1 << 13), L->a_multiplier, L->a_shift);
            right = cortado_requant(right * (1 << 13), L->b_multiplier, L->b_shift);
        }
        out[i] = cortado_accepted(left, right, L->accepts);
    }
}
