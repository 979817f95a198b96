/* SPDX-License-Identifier: Apache-2.0
 *
 * Addition, four elements at a time: see add_fours_s8__scalar_dsp.h.
 *
 * Tile: 4 elements. Scratch: none.
 */
#include "add_fours_s8__scalar_dsp.h"

#if !CORTADO_SMALL_CORE

/* `left` is how far the value is shifted left before it is multiplied, with the doubling for a long multiply. */
static cortado_add_factor_t factor(int32_t zero, int32_t multiplier, int32_t shift, int32_t left)
{
    const uint32_t shifts = (uint32_t)(left - shift * 256) | (shift < 0 ? 0x80000000u : 0);
    const cortado_add_factor_t f = {-shift, multiplier, (int32_t)shifts, zero};
    return f;
}

void CORTADO_ISA(cortado_add_s8)(const cortado_add_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
{
    const int32_t fours = n & ~3;
    cortado_add_fours_t sum;
    sum.a = factor(-L->a_zero, L->a_multiplier, L->a_shift, 21);
    sum.out = factor(L->out_zero, L->out_multiplier, L->out_shift, 1);
    sum.b_zero = -L->b_zero;
    if (fours > 0) {
        CORTADO_ISA(cortado_add_fours_s8)(&sum, a, b, out, fours);
    }
    if (fours != n) { /* the last few, without reading or writing past the end */
        const int32_t left = cortado_load_few(a + fours, n - fours), right = cortado_load_few(b + fours, n - fours);
        int32_t result;
        CORTADO_ISA(cortado_add_fours_s8)(&sum, (const int8_t *)&left, (const int8_t *)&right, (int8_t *)&result, 4);
        cortado_store_few(out + fours, result, n - fours);
    }
}

#else
typedef int cortado_add_needs_long_multiply; /* an empty translation unit is not C */
#endif
