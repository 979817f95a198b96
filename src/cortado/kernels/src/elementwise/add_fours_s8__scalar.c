/* SPDX-License-Identifier: Apache-2.0
 *
 * add_fours_s8__scalar_dsp.S in C, for machines that it has no code for.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "add_fours_s8__scalar_dsp.h"

#if !CORTADO_SMALL_CORE && !defined(__thumb__)

static int32_t scale(const cortado_add_factor_t *f, int32_t v)
{
    return cortado_requant(v, f->multiplier, f->right > 0 ? -f->right : (f->shifts & 0xFF) - 1);
}

void CORTADO_ISA(cortado_add_fours_s8)(const cortado_add_fours_t *F, const int8_t *a, const int8_t *b, int8_t *out,
                                       int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t left = cortado_requant((a[i] + F->a.zero) * (1 << 20), F->a.multiplier, -F->a.right);
        const int32_t right = (b[i] + F->b_zero) * (1 << 19);
        out[i] = (int8_t)cortado_clamp(scale(&F->out, left + right) + F->out.zero, -128, 127);
    }
}

#else
typedef int cortado_add_fours_is_assembly; /* an empty translation unit is not C */
#endif
