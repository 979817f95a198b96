/* SPDX-License-Identifier: Apache-2.0
 *
 * Two rows of a product of matrices with vector instructions: matmul_rows_s8.h.
 *
 *   void cortado_matmul_rows_s8__mve(const cortado_matmul_rows_t *T, const int8_t *lhs, const int8_t *rhs, int8_t *out)
 *
 * Tile: 2 rows x 4 columns. Scratch: none of its own.
 *
 *   r0, r2 sums of the first row   r4, r6 of the second   r1, r3 the rows   r5, r7 two columns   r8 depth   r9 lhs
 *   r10 rhs   r11 out   r12 T   lr turns left   q0, q1 rows   q2, q3 columns   q4, q5 sums of four columns
 *   q6 starts   q7 multiplier
 */
#include "cortado_asm.h"
#include "matmul_rows_s8.h"

#if defined(__ARM_FEATURE_MVE)

/* Two columns, from r10 on. */
    .macro two_columns
    mov     r1, r9
    add     r3, r9, r8
    mov     r5, r10
    add     r7, r10, r8
    add     r10, r7, r8
    movs    r0, #0
    movs    r2, #0
    movs    r4, #0
    movs    r6, #0
    dlstp.8 lr, r8
    /* One turn: sixteen products of each sum. */
.Lmatmul_mve_\@:
    vldrb.8 q0, [r1], #16
    vldrb.8 q2, [r5], #16
    vmladava.s8 r0, q0, q2
    vldrb.8 q1, [r3], #16
    vmladava.s8 r4, q1, q2
    vldrb.8 q3, [r7], #16
    vmladava.s8 r2, q0, q3
    vmladava.s8 r6, q1, q3
    letp    lr, .Lmatmul_mve_\@
    .endm

    .macro scale_vector sums
    vqrdmulh.s32 \sums, \sums, q7
    vshr.s32 q0, \sums, #31
    vadd.i32 \sums, \sums, q0
    vrshl.s32 \sums, r2
    vadd.i32 \sums, \sums, r3
    vqmovnb.s32 \sums, \sums
    vqmovnb.s16 \sums, \sums
    .endm

    function cortado_matmul_rows_s8__mve
    push    {r3-r11, lr}
    vpush   {d8-d15}
    mov     r12, r0
    mov     r9, r1
    mov     r10, r2
    mov     r11, r3
    ldr     r8, [r12, #MATMUL_DEPTH]
    ldr     r0, [r12, #MATMUL_MULTIPLIER]
    vdup.32 q7, r0
    sub     sp, sp, #16
    movs    r0, #0
    strd    r0, r2, [sp]
    /* One turn: four columns. On the stack: the first of them, rhs. */
.Lmatmul_mve_columns:
    two_columns
    vmov    d8, r0, r2
    vmov    d10, r4, r6
    two_columns
    vmov    d9, r0, r2
    vmov    d11, r4, r6
    ldr     r0, [r12, #MATMUL_STARTS]
    ldr     r1, [sp]
    ldrd    r4, r5, [r12, #MATMUL_ROW0]
    add     r0, r0, r1, lsl #2
    vldrw.32 q6, [r0]
    ldrd    r2, r3, [r12, #MATMUL_SHIFT]
    rsbs    r2, r2, #0
    ldr     r7, [r12, #MATMUL_COLS]
    vadd.i32 q4, q4, q6
    vadd.i32 q5, q5, q6
    vadd.i32 q4, q4, r4
    vadd.i32 q5, q5, r5
    scale_vector q4
    scale_vector q5
    add     r0, r11, r1
    vstrb.32 q4, [r0]
    add     r0, r0, r7
    vstrb.32 q5, [r0]
    adds    r1, r1, #4
    subs    r7, r7, r1
    beq     .Lmatmul_mve_done
    cmp     r7, #4
    bge     .Lmatmul_mve_next
    ldr     r2, [sp, #4]
    subs    r1, r1, #4
    adds    r1, r1, r7
    mla     r10, r1, r8, r2
.Lmatmul_mve_next:
    str     r1, [sp]
    b       .Lmatmul_mve_columns
.Lmatmul_mve_done:
    add     sp, sp, #16
    vpop    {d8-d15}
    pop     {r3-r11, pc}
    .size   cortado_matmul_rows_s8__mve, . - cortado_matmul_rows_s8__mve

#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
