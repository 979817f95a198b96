/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns of two rows of a product of matrices with DSP instructions, two columns in every halfword:
 * matmul_lanes_s8.h.
 *
 *   void cortado_matmul_lanes_s8__dsp(const cortado_matmul_lanes_t *T, const int8_t *lhs, int32_t cols, int8_t *out)
 *
 * Tile: 2 rows x 4 columns. Scratch: none of its own; x and the stream are the kernel's.
 *
 * As in conv_lanes_s8__dsp.S, one SMLAD with a halfword adds to 256 * sum b + sum a, one with its lower byte to sum a.
 * Unlike weights, codes can be -128: so the lower byte is a + 128, without a sign, and 256 * b + a + 128 fits in any
 * case. What that adds to sum a is 128 times the sum of the row, which is taken away with the zero point's share. Sums
 * of b are taken out before anything else is added to them: they fit 24 bits up to 511 products.
 *
 * The same core as there loads r2 and r12 a step ahead.
 *
 * The stream, for each four columns a, b, c, d; (ba)[k] is the halfword of product k of a and b:
 *
 *   | (ba)[k] (ba)[k+2] | (dc)[k] (dc)[k+2] | (ba)[k+1] (ba)[k+3] | (dc)[k+1] (dc)[k+3] |  each four products
 *   | start of a 4 | of b 4 | of c 4 | of d 4 |  doubled
 *
 * While rows are unpacked:
 *   r0 T   r1, r12 lhs of both rows   r4 x   r5 fours   r6 ones   r7, r8 sums of the rows   r9, r10, r11, lr bytes
 * While products are added:
 *   r0 x   r1 stream   r2, r3 a word of x of each row   r12, lr two words of the stream
 *   r4, r5 sum a of both rows   r6, r7 256 * sum b + sum a   r8, r9 sum c   r10, r11 256 * sum d + sum c
 * Then:
 *   r0, lr what the rows add to odd columns, then multiplier and right shift   r2, r3 starts   r12 output offset
 *   r4, r5 four outputs of each row as one word
 */
#include "matmul_lanes_s8.h"
#include "cortado_lanes.h"

#if defined(__thumb__) && defined(__ARM_FEATURE_DSP)

/* Frame. */
#define X 0
#define ENTRY 4  /* where the first turn over the products begins */
#define EVEN 8   /* what both rows add to even columns, and to odd ones */
#define ODD 16
#define FACTOR 24 /* multiplier and right shift */
#define OFFSET 32
#define X_END 36
#define OUT 40
#define STRIDE 44
#define COLS 48  /* columns left */
#define FRAME 56

/* Two columns of both rows: their sums apart, doubled, with all that they start with. */
    .macro finish_pair a0, a1, b0, b1
    ldrd    r2, r3, [r1], #8
    subs    \b0, \b0, \a0
    subs    \b1, \b1, \a1
    add     \a0, r2, \a0, lsl #1
    add     \a1, r2, \a1, lsl #1
    add     r2, r3, lr
    add     r3, r3, r0
    add     \b0, r3, \b0, asr #7
    add     \b1, r2, \b1, asr #7
    .endm

    function cortado_matmul_lanes_s8__dsp
    push    {r4-r11, lr}
    sub     sp, sp, #FRAME
    strd    r3, r2, [sp, #OUT]
    str     r2, [sp, #COLS]
    ldrd    r4, r2, [r0, #LANES_X]
    ldr     r3, [r0, #LANES_STRIDE]
    str     r3, [sp, #STRIDE]
    add     r12, r1, r2
    lsrs    r5, r2, #2
    and     r2, r2, #3
    mov     r6, #0x00010001
    movs    r7, #0
    movs    r8, #0
    cmp     r5, #0
    beq     .Lmatmul_lanes_few
    /* One turn: four bytes of both rows. */
.Lmatmul_lanes_unpack:
    load_four r9, r1, r11
    load_four r10, r12, r11
    /* Here also from below, with the last four of each, of which the first 1 to 3 were bytes. */
.Lmatmul_lanes_four:
    sxtb16  r11, r9
    sxtb16  lr, r10
    strd    r11, lr, [r4], #8
    smlad   r7, r11, r6, r7
    smlad   r8, lr, r6, r8
    sxtb16  r9, r9, ror #8
    sxtb16  r10, r10, ror #8
    strd    r9, r10, [r4], #8
    smlad   r7, r9, r6, r7
    smlad   r8, r10, r6, r8
    subs    r5, r5, #1
    bgt     .Lmatmul_lanes_unpack
.Lmatmul_lanes_few:
    cmp     r2, #0
    beq     .Lmatmul_lanes_start
    movs    r9, #0
    movs    r10, #0
    movs    r5, #0
    /* One turn: one of the last 1 to 3 bytes, from the last to the first. */
.Lmatmul_lanes_byte:
    subs    r2, r2, #1
    ldrb    r11, [r1, r2]
    ldrb    lr, [r12, r2]
    orr     r9, r11, r9, lsl #8
    orr     r10, lr, r10, lsl #8
    bne     .Lmatmul_lanes_byte
    b       .Lmatmul_lanes_four
.Lmatmul_lanes_start:
    str     r4, [sp, #X_END]
    ldrd    r9, r10, [r0, #LANES_EVEN]
    mul     r2, r7, r9
    mul     r3, r8, r9
    strd    r2, r3, [sp, #EVEN]
    mul     r2, r7, r10
    mul     r3, r8, r10
    strd    r2, r3, [sp, #ODD]
    ldrd    r2, r3, [r0, #LANES_MULTIPLIER]
    ldr     r5, [r0, #LANES_OFFSET]
    strd    r2, r3, [sp, #FACTOR]
    str     r5, [sp, #OFFSET]
    /* The first turn has what is no whole turn. */
    ldrd    r1, r2, [r0, #LANES_STREAM]
    subs    r4, r2, r4
    asrs    r4, r4, #2
    adds    r4, r4, #BEHIND
    and     r4, r4, #TURN - 1
    movs    r6, #STEPS_BYTES / 2
    adr     r7, .Lmatmul_lanes_products
    mla     r4, r4, r6, r7
    orr     r3, r4, #1
    strd    r2, r3, [sp, #X]
    /* One turn: four columns. */
.Lmatmul_lanes_columns:
    ldrd    r0, r2, [sp, #X]
    ldrd    r4, r5, [sp, #EVEN]
    mov     r6, r4
    mov     r7, r5
    mov     r8, r4
    mov     r9, r5
    mov     r10, r4
    mov     r11, r5
#if CORTADO_DUAL_ISSUE
    mov     r3, r2
    ldr     r12, [r1], #8
    ldr     r2, [r0], #8
    bx      r3
#else
    bx      r2
#endif
    .p2align 2
    /* One turn: sixteen products of both rows and all four columns. */
.Lmatmul_lanes_products:
    .rept TURN / 2
    products uxtb16
    .endr
    ldr     r3, [sp, #X_END]
    cmp     r0, r3
    bne     .Lmatmul_lanes_products
#if CORTADO_DUAL_ISSUE
    products uxtb16, more=0
#endif
    ldrd    r0, lr, [sp, #ODD]
    finish_pair r4, r5, r6, r7
    finish_pair r8, r9, r10, r11
    ldrd    r0, r2, [sp, #FACTOR]
    ldr     r12, [sp, #OFFSET]
    scale_right r4, r0, r2
    scale_right r5, r0, r2
    scale_right r6, r0, r2
    scale_right r7, r0, r2
    scale_right r8, r0, r2
    scale_right r9, r0, r2
    scale_right r10, r0, r2
    scale_right r11, r0, r2
    join_bytes r4, r6, r8, r10
    join_bytes r5, r7, r9, r11
    ldrd    r3, r2, [sp, #OUT]
    ldr     r12, [sp, #COLS]
    add     r2, r2, r3
    subs    r12, r12, #4
    blt     .Lmatmul_lanes_last
    str     r12, [sp, #COLS]
#if defined(CORTADO_ALIGNED_ONLY)
    store_four r4, r3
    store_four r5, r2
    cmp     r12, #0
#else
    str     r4, [r3], #4
    str     r5, [r2]
#endif
    str     r3, [sp, #OUT]
    bne     .Lmatmul_lanes_columns
    /* Here also from below, after the last few columns. */
.Lmatmul_lanes_return:
    add     sp, sp, #FRAME
    pop     {r4-r11, pc}
.Lmatmul_lanes_last:
    adds    r12, r12, #4
    /* One turn: one of the last one to three columns. */
.Lmatmul_lanes_last_byte:
    strb    r4, [r3], #1
    strb    r5, [r2], #1
    lsrs    r4, r4, #8
    lsrs    r5, r5, #8
    subs    r12, r12, #1
    bne     .Lmatmul_lanes_last_byte
    b       .Lmatmul_lanes_return
    .size   cortado_matmul_lanes_s8__dsp, . - cortado_matmul_lanes_s8__dsp

#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
