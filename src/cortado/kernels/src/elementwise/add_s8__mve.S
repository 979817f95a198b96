/* SPDX-License-Identifier: Apache-2.0
 *
 * Addition with vector instructions.
 *
 *   void cortado_add_s8__mve(const cortado_add_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
 *
 * Tile: 4 elements. Scratch: none.
 *
 * b has the factor 1/2 exactly, so its (q - zero) << 20 becomes (q - zero) << 19. a has a factor of at most 1/2, and
 * the output is shifted right.
 *
 *   r0 L   r1 a   r2 b   r3 out   r4 -a_zero << 20   r5, r6 a's multiplier and shift   r7 2^19   r8 -b_zero << 19
 *   r9 output multiplier   r10 output shift   r11 output zero point   r12 n
 *   q0 a, then sums   q1 b   q2 what rounds   q4 2^20   q5 a's shift   q6, q7 limits
 */
#include "cortado_asm.h"
#include "cortado_offsets.h"

#if defined(__ARM_FEATURE_MVE)

#define N 100 /* where n was passed, behind the saved registers */

    function cortado_add_s8__mve
    push    {r4-r11, lr}
    vpush   {d8-d15}
    ldr     r5, [r0, #CORTADO_ADD_A_MULTIPLIER]
    ldrsb   r4, [r0, #CORTADO_ADD_A_ZERO]
    ldrsb   r6, [r0, #CORTADO_ADD_A_SHIFT]
    ldrsb   r8, [r0, #CORTADO_ADD_B_ZERO]
    mov     r12, #0x100000
    mov     r7, #0x80000
    vdup.32 q4, r12
    vdup.32 q5, r6
    rsb     r4, r4, #0
    rsb     r8, r8, #0
    lsl     r4, r4, #20
    lsl     r8, r8, #19
    ldrsb   r10, [r0, #CORTADO_ADD_ACT_MIN]
    ldrsb   r11, [r0, #CORTADO_ADD_ACT_MAX]
    vdup.32 q6, r10
    vdup.32 q7, r11
    ldrsb   r11, [r0, #CORTADO_ADD_OUT_ZERO]
    ldr     r9, [r0, #CORTADO_ADD_OUT_MULTIPLIER]
    ldrsb   r10, [r0, #CORTADO_ADD_OUT_SHIFT]
    ldr     r12, [sp, #N]
    wlstp.32 lr, r12, .Ladd_return
    /* One turn: four elements. a is scaled, half of b is added, and their sum is scaled; ties go away from zero:
     * negative values are decremented before a right shift. */
.Ladd_four:
    vldrb.s32 q0, [r1], #4
    vldrb.s32 q1, [r2], #4
    vmlas.s32 q0, q4, r4
    vqrdmulh.s32 q0, q0, r5
    vand    q2, q0, q5
    vshr.s32 q2, q2, #31
    vadd.i32 q0, q0, q2
    vrshl.s32 q0, r6
    vmla.s32 q0, q1, r7
    vadd.i32 q0, q0, r8
    vqrdmulh.s32 q0, q0, r9
    vshr.s32 q2, q0, #31
    vadd.i32 q0, q0, q2
    vrshl.s32 q0, r10
    vadd.i32 q0, q0, r11
    vmax.s32 q0, q0, q6
    vmin.s32 q0, q0, q7
    vstrb.32 q0, [r3], #4
    letp    lr, .Ladd_four
.Ladd_return:
    vpop    {d8-d15}
    pop     {r4-r11, pc}
    .size   cortado_add_s8__mve, . - cortado_add_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
