/* SPDX-License-Identifier: Apache-2.0
 *
 * Multiplication with vector instructions, four elements at a time.
 *
 *   void cortado_mul_s8__mve(const cortado_mul_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
 */
#if defined(__ARM_FEATURE_MVE)
#include "cortado_asm.h"

#define N 100

/* r1 a, r2 b, r3 out; r4 -a_zero, r5 -b_zero, r6 output zero point, r7 multiplier, r8 right shift (not positive), r9
 * left shift; q5 right shift, q6 and q7 limits. */
    function cortado_mul_s8__mve
    push    {r4-r11, lr}
    vpush   {d8-d15}
    ldm     r0, {r4-r10}
    vdup.32 q6, r9
    vdup.32 q7, r10
    rsb     r4, r4, #0
    rsb     r5, r5, #0
    bic     r9, r8, r8, asr #31
    and     r8, r8, r8, asr #31
    vdup.32 q5, r8
    ldr     r12, [sp, #N]
    wlstp.32 lr, r12, 2f
1:  vldrb.s32 q0, [r1], #4
    vldrb.s32 q1, [r2], #4
    vadd.i32 q0, q0, r4
    vadd.i32 q1, q1, r5
    vmul.i32 q0, q0, q1
    vshl.s32 q0, r9
    vqrdmulh.s32 q0, q0, r7
    vand    q2, q0, q5
    vshr.s32 q2, q2, #31
    vadd.i32 q0, q0, q2
    vrshl.s32 q0, r8
    vadd.i32 q0, q0, r6
    vmax.s32 q0, q0, q6
    vmin.s32 q0, q0, q7
    vstrb.32 q0, [r3], #4
    letp    lr, 1b
2:  vpop    {d8-d15}
    pop     {r4-r11, pc}
    .size   cortado_mul_s8__mve, . - cortado_mul_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
