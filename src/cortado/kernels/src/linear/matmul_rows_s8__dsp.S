/* SPDX-License-Identifier: Apache-2.0
 *
 * Two rows of a product of matrices with DSP instructions: matmul_rows_s8.h.
 *
 *   void cortado_matmul_rows_s8__dsp(const cortado_matmul_rows_t *T, const int8_t *lhs, const int8_t *rhs, int8_t *out)
 *
 * Tile: 2 rows x 2 columns. Scratch: none of its own.
 *
 * While products are added:
 *   r0 lhs   r1 rhs   r2 depth   r4, r5 sums of the first row   r6, r7 of the second   r8, r9 four bytes of both rows
 *   r10, r11 of both columns   r3, r12, lr two of them as halfwords
 * Then:
 *   r0 multiplier   r1 shift   r2 T   r3 out   r12 offset   r8 columns   r9 the column
 */
#include "cortado_asm.h"
#include "matmul_rows_s8.h"

#if defined(__thumb__) && defined(__ARM_FEATURE_DSP)

/* Frame. */
#define LAST 0  /* where the eights of the first row end */
#define T 4
#define LHS 8
#define RHS 12
#define OUT 16
#define COLUMN 20
#define FRAME 24

/* Four products of each of the four sums. */
    .macro four
    ldr     r9, [r0, r2]
    ldr     r8, [r0], #4
    ldr     r11, [r1, r2]
    ldr     r10, [r1], #4
    sxtb16  r12, r8
    sxtb16  lr, r10
    sxtb16  r3, r11
    smlad   r4, r12, lr, r4
    smlad   r5, r12, r3, r5
    sxtb16  r12, r9
    smlad   r6, r12, lr, r6
    smlad   r7, r12, r3, r7
    sxtb16  r8, r8, ror #8
    sxtb16  r10, r10, ror #8
    sxtb16  r11, r11, ror #8
    smlad   r4, r8, r10, r4
    smlad   r5, r8, r11, r5
    sxtb16  r9, r9, ror #8
    smlad   r6, r9, r10, r6
    smlad   r7, r9, r11, r7
    .endm

    function cortado_matmul_rows_s8__dsp
    push    {r4-r11, lr}
    sub     sp, sp, #FRAME
    strd    r0, r1, [sp, #T]
    strd    r2, r3, [sp, #RHS]
    ldr     r4, [r0, #MATMUL_FOURS]
    add     r4, r1, r4, lsl #2
    str     r4, [sp, #LAST]
    movs    r9, #0
    mov     r3, r0
    /* One turn: two columns. r2 rhs   r3 T   r9 the first of them */
.Lmatmul_columns:
    str     r9, [sp, #COLUMN]
    ldr     r8, [r3, #MATMUL_STARTS]
    ldrd    r10, r11, [r3, #MATMUL_ROW0]
    ldr     r12, [r3, #MATMUL_FOURS]
    add     r8, r8, r9, lsl #2
    ldrd    r4, r5, [r8]
    ldr     r0, [sp, #LHS]
    mov     r1, r2
    ldr     r2, [r3, #MATMUL_DEPTH]
    add     r6, r4, r11
    add     r7, r5, r11
    add     r4, r4, r10
    add     r5, r5, r10
    lsrs    r12, r12, #1
    bcc     .Lmatmul_even
    four
    /* Here also from above, where fours are an even number. */
.Lmatmul_even:
    ldr     r12, [sp, #LAST]
    cmp     r0, r12
    beq     .Lmatmul_rest
    /* One turn: eight products of each sum. */
.Lmatmul_eight:
    four
    four
    ldr     r12, [sp, #LAST]
    cmp     r0, r12
    bne     .Lmatmul_eight
.Lmatmul_rest:
    ldr     r3, [sp, #T]
    ldr     r12, [r3, #MATMUL_REST]
    cmp     r12, #0
    beq     .Lmatmul_scale
    /* One turn: one product of each sum. */
.Lmatmul_byte:
    ldrsb   r9, [r0, r2]
    ldrsb   r8, [r0], #1
    ldrsb   r11, [r1, r2]
    ldrsb   r10, [r1], #1
    smlabb  r4, r8, r10, r4
    smlabb  r5, r8, r11, r5
    smlabb  r6, r9, r10, r6
    smlabb  r7, r9, r11, r7
    subs    r12, r12, #1
    bne     .Lmatmul_byte
.Lmatmul_scale:
    ldrd    r0, r1, [r3, #MATMUL_MULTIPLIER]
    ldr     r12, [r3, #MATMUL_OFFSET]
    ldr     r8, [r3, #MATMUL_COLS]
    ldrd    r10, r9, [sp, #OUT]
    lsls    r4, r4, #1
    lsls    r5, r5, #1
    lsls    r6, r6, #1
    lsls    r7, r7, #1
    scale_right r4, r0, r1
    scale_right r5, r0, r1
    scale_right r6, r0, r1
    scale_right r7, r0, r1
    ssat    r4, #8, r4
    ssat    r5, #8, r5
    ssat    r6, #8, r6
    ssat    r7, #8, r7
    add     r10, r10, r9
    strb    r4, [r10]
    strb    r5, [r10, #1]
    add     r10, r10, r8
    strb    r6, [r10]
    strb    r7, [r10, #1]
    adds    r9, r9, #2
    subs    r8, r8, r9
    beq     .Lmatmul_done
    ldr     r2, [r3, #MATMUL_DEPTH]
    ldr     r10, [sp, #RHS]
    cmp     r8, #1
    it      eq
    subeq   r9, r9, #1
    mla     r2, r2, r9, r10
    b       .Lmatmul_columns
.Lmatmul_done:
    add     sp, sp, #FRAME
    pop     {r4-r11, pc}
    .size   cortado_matmul_rows_s8__dsp, . - cortado_matmul_rows_s8__dsp

#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
