/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of elementwise addition on cores with a long multiply. Internal.
 *
 * The operand with the larger scale has the factor 1/2 exactly, so its (q - zero) << 20 becomes (q - zero) << 19: it is
 * taken as b.
 */
#ifndef ADD_FOURS_S8__SCALAR_DSP_H
#define ADD_FOURS_S8__SCALAR_DSP_H

#include "cortado_isa.h"

/* Members of cortado_add_fours_t, for the assembly, which reads a factor's four words at once. */
#define FOURS_A 0
#define FOURS_OUT 16
#define FOURS_B_ZERO 32

#if !CORTADO_SMALL_CORE && !defined(__ASSEMBLER__)
#include "cortado.h"
#include "cortado_math.h"

/* A shift word is that of cortado_asm.h. */
typedef struct {
    int32_t right, multiplier, shifts, zero; /* zero: what to add to the operand, or to the output */
} cortado_add_factor_t;

typedef struct {
    cortado_add_factor_t a, out;
    int32_t b_zero;
} cortado_add_fours_t;

CORTADO_AT(cortado_add_factor_t, right, 0);
CORTADO_AT(cortado_add_factor_t, multiplier, 4);
CORTADO_AT(cortado_add_factor_t, shifts, 8);
CORTADO_AT(cortado_add_factor_t, zero, 12);
CORTADO_AT(cortado_add_fours_t, a, FOURS_A);
CORTADO_AT(cortado_add_fours_t, out, FOURS_OUT);
CORTADO_AT(cortado_add_fours_t, b_zero, FOURS_B_ZERO);

/* Four elements at a time: n is a multiple of 4, and not 0. */
void CORTADO_ISA(cortado_add_fours_s8)(const cortado_add_fours_t *F, const int8_t *a, const int8_t *b, int8_t *out,
                                       int32_t n);

#endif
#endif /* ADD_FOURS_S8__SCALAR_DSP_H */
