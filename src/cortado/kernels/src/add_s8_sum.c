/* SPDX-License-Identifier: Apache-2.0
 *
 * Addition, four elements at a time: see cortado_sum.h.
 */
#include "cortado_sum.h"

#if !CORTADO_SMALL_CORE

/* `before` is how far the value is shifted left before anything else. */
static cortado_sum_factor_t factor(int32_t zero, int32_t multiplier, int32_t shift, int32_t before)
{
    const int32_t right = shift < 0 ? -shift : 0, left = before + 1 + (shift > 0 ? shift : 0);
    const uint32_t shifts = (uint32_t)(left | right << 8) | (right > 0 ? 0x80000000u : 0);
    const cortado_sum_factor_t f = {right, multiplier, (int32_t)shifts, zero};
    return f;
}

void CORTADO_SUM_NAME(cortado_add_s8)(const cortado_add_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
{
    const int32_t fours = n & ~3;
    const int swap = L->a_multiplier == 1 << 30 && L->a_shift == 0;
    const int8_t *const halved = swap ? a : b;
    cortado_sum_t sum;
    sum.a = swap ? factor(-L->b_zero, L->b_multiplier, L->b_shift, 20)
                 : factor(-L->a_zero, L->a_multiplier, L->a_shift, 20);
    sum.out = factor(L->out_zero, L->out_multiplier, L->out_shift, 0);
    sum.low = L->act_min;
    sum.high = L->act_max;
    sum.b_zero = swap ? -L->a_zero : -L->b_zero;
    a = swap ? b : a;
    b = halved;
    if (fours > 0) {
        cortado_sum_fours(&sum, a, b, out, fours);
    }
    if (fours != n) { /* the last few, without reading or writing past the end */
        int8_t rest[3][4] = {{0}, {0}, {0}};
        for (int32_t i = fours; i < n; i++) {
            rest[0][i - fours] = a[i];
            rest[1][i - fours] = b[i];
        }
        cortado_sum_fours(&sum, rest[0], rest[1], rest[2], 4);
        for (int32_t i = fours; i < n; i++) {
            out[i] = rest[2][i - fours];
        }
    }
}

#else
typedef int cortado_add_needs_long_multiply; /* an empty translation unit is not C */
#endif
