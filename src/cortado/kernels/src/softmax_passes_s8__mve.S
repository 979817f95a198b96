/* SPDX-License-Identifier: Apache-2.0
 *
 * The three passes of softmax with vector instructions: see softmax_table_s8__mve.c.
 */
#include "cortado_asm.h"

#if defined(__ARM_FEATURE_MVE)

/* int32_t cortado_softmax_largest_s8__mve(const int8_t *in, int32_t n) */
    function cortado_softmax_largest_s8__mve
    push    {r4, lr}
    mov     r2, r0
    mvn     r0, #127
    wlstp.8 lr, r1, 2f
1:  vldrb.8 q0, [r2], #16
    vmaxv.s8 r0, q0
    letp    lr, 1b
2:  sxtb    r0, r0
    pop     {r4, pc}
    .size   cortado_softmax_largest_s8__mve, . - cortado_softmax_largest_s8__mve

/* int32_t cortado_softmax_sum_s8__mve(const int8_t *in, int32_t n, const int32_t *table, const int32_t limits[2])
 *
 * limits is the largest input and the last entry of the table. */
    function cortado_softmax_sum_s8__mve
    push    {r4, r5, r6, lr}
    ldrd    r4, r5, [r3]
    vdup.32 q1, r4
    vdup.32 q2, r5
    mov     r12, #0
    wlstp.32 lr, r1, 2f
1:  vldrb.s32 q0, [r0], #4
    vsub.i32 q0, q1, q0
    vmin.u32 q0, q0, q2
    vldrw.u32 q3, [r2, q0, uxtw #2]
    vrshr.s32 q3, q3, #12
    vaddva.s32 r12, q3
    letp    lr, 1b
2:  mov     r0, r12
    pop     {r4, r5, r6, pc}
    .size   cortado_softmax_sum_s8__mve, . - cortado_softmax_sum_s8__mve

/* void cortado_softmax_outputs_s8__mve(const int8_t *in, int8_t *out, int32_t n, const int32_t *table, const int32_t factors[4])
 *
 * factors is the largest input, the last entry of the table, the multiplier and the right shift, negated. */
    function cortado_softmax_outputs_s8__mve
    push    {r4-r8, lr}
    ldr     r8, [sp, #24]
    ldm     r8, {r4-r7}
    vpush   {d8-d9}
    vdup.32 q1, r4
    vdup.32 q2, r5
    mov     r4, #127
    mvn     r5, #127
    vdup.32 q4, r4
    wlstp.32 lr, r2, 2f
1:  vldrb.s32 q0, [r0], #4
    vsub.i32 q0, q1, q0
    vmin.u32 q0, q0, q2
    vldrw.u32 q3, [r3, q0, uxtw #2]
    vqrdmulh.s32 q3, q3, r6
    vrshl.s32 q3, r7
    vadd.i32 q3, q3, r5
    vmin.s32 q3, q3, q4
    vstrb.32 q3, [r1], #4
    letp    lr, 1b
2:  vpop    {d8-d9}
    pop     {r4-r8, pc}
    .size   cortado_softmax_outputs_s8__mve, . - cortado_softmax_outputs_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
