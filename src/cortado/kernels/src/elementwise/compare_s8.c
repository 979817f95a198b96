/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons of two tensors of codes.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_compare.h"

/* Codes of one scale and zero point compare as they are. */
static void compare_codes(const int8_t *a, const int8_t *b, int8_t *out, int32_t n, int32_t accepts)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_accepted(a[i], b[i], accepts);
    }
}

void cortado_compare_s8(const cortado_compare_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
{
    if (L->a_zero == L->b_zero && L->a_multiplier == L->b_multiplier && L->a_shift == L->b_shift) {
        compare_codes(a, b, out, n, L->accepts);
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        const int32_t left = cortado_requant((a[i] - L->a_zero) * (1 << 20), L->a_multiplier, L->a_shift);
        const int32_t right = cortado_requant((b[i] - L->b_zero) * (1 << 20), L->b_multiplier, L->b_shift);
        out[i] = cortado_accepted(left, right, L->accepts);
    }
}
