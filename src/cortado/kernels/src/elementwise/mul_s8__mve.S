/* SPDX-License-Identifier: Apache-2.0
 *
 * Multiplication with vector instructions, element by element.
 *
 *   void cortado_mul_s8__mve(const cortado_mul_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
 *
 * Tile: 8 elements. Scratch: none.
 *
 * Differences are halfwords and their products words, those of even and of odd elements apart; narrowing them the same
 * way puts them back in order. The output is shifted right.
 *
 *   r0 elements left   r1 a   r2 b   r3 out   r4 -a_zero   r5 -b_zero   r6 output zero point   r7 multiplier   r8 shift
 *   q0, q1 differences   q2, q0 even and odd products   q3, q4 limits
 */
#include "cortado_asm.h"
#include "cortado_offsets.h"

#if defined(__ARM_FEATURE_MVE)

#define N 48 /* where n was passed, behind the saved registers */

    function cortado_mul_s8__mve
    push    {r4-r10, lr}
    vpush   {d8-d9}
    ldm     r0, {r4-r10} /* from CORTADO_MUL_A_ZERO, which is 0, to act_max */
    vdup.16 q3, r9
    vdup.16 q4, r10
    rsb     r4, r4, #0
    rsb     r5, r5, #0
    ldr     r0, [sp, #N]
    /* One turn: up to eight elements. */
.Lmul_eight:
    vctp.16 r0
    vpstt
    vldrbt.s16 q0, [r1], #8
    vldrbt.s16 q1, [r2], #8
    vadd.i16 q0, q0, r4
    vadd.i16 q1, q1, r5
    vmullb.s16 q2, q0, q1
    vmullt.s16 q0, q0, q1
    vqrdmulh.s32 q2, q2, r7
    vqrdmulh.s32 q0, q0, r7
    /* Ties go away from zero: negative values are decremented before the shift. */
    vshr.s32 q1, q2, #31
    vadd.i32 q2, q2, q1
    vrshl.s32 q2, r8
    vshr.s32 q1, q0, #31
    vadd.i32 q0, q0, q1
    vrshl.s32 q0, r8
    vqmovnb.s32 q2, q2
    vqmovnt.s32 q2, q0
    vqadd.s16 q2, q2, r6
    vmax.s16 q2, q2, q3
    vmin.s16 q2, q2, q4
    vpst
    vstrbt.16 q2, [r3], #8
    subs    r0, r0, #8
    bgt     .Lmul_eight
    vpop    {d8-d9}
    pop     {r4-r10, pc}
    .size   cortado_mul_s8__mve, . - cortado_mul_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
