/* SPDX-License-Identifier: Apache-2.0
 *
 * The heart of elementwise addition on cores with a long multiply. Internal.
 *
 * The operand with the larger scale has the factor 1/2 exactly, so its (q - zero) << 20 becomes (q - zero) << 19: it is
 * taken as b.
 */
#ifndef ADD_FOURS_S8__SCALAR_DSP_H
#define ADD_FOURS_S8__SCALAR_DSP_H

#include "cortado.h"
#include "cortado_math.h"

#if !CORTADO_SMALL_CORE

/* add_fours_s8__scalar_dsp.S knows these offsets. A shift word is that of cortado_asm.h. */
typedef struct {
    int32_t right, multiplier, shifts, zero; /* zero: what to add to the operand, or to the output */
} cortado_add_factor_t;

typedef struct {
    cortado_add_factor_t a, out;
    int32_t b_zero;
} cortado_add_fours_t;

/* Four elements at a time: n is a multiple of 4, and not 0. */
void CORTADO_ISA(cortado_add_fours_s8)(const cortado_add_fours_t *S, const int8_t *a, const int8_t *b, int8_t *out, int32_t n);

#endif
#endif /* ADD_FOURS_S8__SCALAR_DSP_H */
