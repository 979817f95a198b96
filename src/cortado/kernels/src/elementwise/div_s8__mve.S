/* SPDX-License-Identifier: Apache-2.0
 *
 * Division with vector instructions, in float32.
 *
 *   void cortado_div_s8__mve(const cortado_div_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
 *
 * Tile: 4 elements. Scratch: none.
 *
 * There is no vector division. The reciprocal starts within 12% of 1 / b, which is a difference of bit patterns, and
 * two Newton steps follow; the quotient that it gives is corrected once by its remainder, which is exact. For all
 * differences of two bytes this is the quotient that a division rounds to. VCVTA rounds ties away from zero, and it and
 * the addition behind it saturate. A quotient by 0 is made 0 / 1.
 *
 *   r0 elements left   r1 a   r2 b   r3 out   r4 -a_zero   r5 -b_zero   r6 output zero point   r7 factor
 *   lr turns left
 *   q0 numerators, then remainders   q1 denominators   q2 reciprocals   q3 errors   q4 quotients   q5 pattern
 *   q6, q7 limits
 */
#include "cortado_asm.h"
#include "cortado_offsets.h"

#if defined(__ARM_FEATURE_MVE)

#define N 96 /* where n was passed, behind the saved registers */

    function cortado_div_s8__mve
#if __ARM_FEATURE_MVE & 2
    push    {r4-r9, lr}
    sub     sp, sp, #4
    vpush   {d8-d15}
    ldm     r0, {r4-r9} /* from CORTADO_DIV_A_ZERO, which is 0, to act_max */
    rsb     r4, r4, #0
    rsb     r5, r5, #0
    vdup.32 q6, r8
    vdup.32 q7, r9
    movw    r8, #0x11C7
    movt    r8, #0x7EF3
    vdup.32 q5, r8
    ldr     r0, [sp, #N]
    wlstp.32 lr, r0, .Ldiv_return
    /* One turn: up to four elements. */
.Ldiv_four:
    vldrb.s32 q0, [r1], #4
    vldrb.s32 q1, [r2], #4
    vadd.i32 q0, q0, r4
    vadd.i32 q1, q1, r5
    vcvt.f32.s32 q0, q0
    vcvt.f32.s32 q1, q1
    vptt.i32 eq, q1, zr
    vmovt.i32 q0, #0
    vmovt.f32 q1, #1.0
    vsub.i32 q2, q5, q1
    vmov.f32 q3, #1.0
    vfms.f32 q3, q1, q2
    vfma.f32 q2, q2, q3
    vmov.f32 q3, #1.0
    vfms.f32 q3, q1, q2
    vfma.f32 q2, q2, q3
    vmul.f32 q4, q0, q2
    vfms.f32 q0, q4, q1
    vfma.f32 q4, q0, q2
    vmul.f32 q4, q4, r7
    vcvta.s32.f32 q4, q4
    vqadd.s32 q4, q4, r6
    vmax.s32 q4, q4, q6
    vmin.s32 q4, q4, q7
    vstrb.32 q4, [r3], #4
    letp    lr, .Ldiv_four
.Ldiv_return:
    vpop    {d8-d15}
    add     sp, sp, #4
    pop     {r4-r9, pc}
#else /* vectors of integers alone */
    b       cortado_div_s8
#endif
    .size   cortado_div_s8__mve, . - cortado_div_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
