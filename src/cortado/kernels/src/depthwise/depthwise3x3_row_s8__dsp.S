/* SPDX-License-Identifier: Apache-2.0
 *
 * One row of a 3x3 depthwise convolution with DSP instructions: depthwise3x3_row_s8__dsp.h.
 *
 *   void cortado_depthwise3x3_row_s8__dsp(const cortado_depthwise3x3_row_t *R)
 *
 * Tile: 1 channel x the whole row, every column read once. Scratch: none.
 *
 * A column of the input is the third of one window, the second of the next and the first of the one after, so it goes
 * into three sums as soon as it is there: the first is complete then, the others move up. (With stride 2, a column is
 * the second of one window, or the third of one and the first of the next.)
 *
 *   w00 w01 w02      r4 = | w10 | w00 |   r5 = | w11 | w01 |   r6 = | w12 | w02 |      rows 0 and 1 of each column
 *   w10 w11 w12      r7 = | w21 | w20 |   r8 = | output offset | w22 |                 row 2
 *   w20 w21 w22
 *
 * The stream, for each channel, bytes and then words:
 *
 *   | w00 w01 w10 w11 | w02 w20 w12 w21 | w22 2, output offset 2 | 2 * bias 4 | multiplier 4 | right shift 4 |
 *
 *   r0 next column in row 0   r1, r2 from there to rows 1 and 2
 *   r3 bytes between columns (the channels) in its lower half, outputs left, less 1, in its upper half
 *   r9 sum of the first two columns of the next output
 *   r10 sum of the first column of the one after; with stride 2 out
 *   r12 a column's rows 0 and 1, r11 its row 2   lr the output
 */
#include "cortado_asm.h"
#include "depthwise3x3_row_s8__dsp.h"

#if defined(__thumb__) && defined(__ARM_FEATURE_DSP)

/* Frame. From STREAM on as in R. */
#define BIAS 0
#define FACTOR 4
#define SHIFT 8
#define STREAM 12
#define START 16
#define COUNT 20
#define LEFT 24 /* channels left */
#define KIND 28
#define ZEROS 32
#define OUT 36
#define FRAME 40

/* The next column. */
    .macro column
    ldrsb   r12, [r0]
    ldrsb   lr, [r0, r1]
    ldrsb   r11, [r0, r2]
    pkhbt   r12, r12, lr, lsl #16
    .endm

/* A column as the third, second or first of a window. */
    .macro third to, from
    smlad   \to, r12, r6, \from
    smlabb  \to, r11, r8, \to
    .endm

    .macro second to, from
    smlad   \to, r12, r5, \from
    smlabt  \to, r11, r7, \to
    .endm

    .macro first to
    smuad   \to, r12, r4
    smlabb  \to, r11, r7, \to
    .endm

/* lr becomes an output; with \out, that register where it goes. */
    .macro scale_output out
    ldr     r11, [sp, #BIAS]
    ldr     r12, [sp, #FACTOR]
    add     lr, r11, lr, lsl #1
    smmulr  lr, lr, r12
    ldr     r11, [sp, #SHIFT]
    .ifnb \out
    ldr     \out, [sp, #OUT]
    .endif
    add     lr, lr, lr, asr #31
    asrs    lr, lr, r11
    adc     lr, lr, #0
    sxtah   lr, lr, r8, ror #16
    ssat    lr, #8, lr
    .endm

/* One value in all rows of a column, where it lies outside the image. */
    .macro zero_column
    ldr     r12, [sp, #ZEROS]
    mov     r11, r12
    .endm

    function cortado_depthwise3x3_row_s8__dsp
    push    {r4-r11, lr}
    sub     sp, sp, #FRAME
    ldm     r0, {r0-r2, r4-r10}
    add     r0, sp, #STREAM
    stm     r0, {r4-r10}
    /* One turn: one channel of the whole row. */
.Lrow_channel:
    ldr     r10, [sp, #STREAM]
    ldr     r0, [sp, #START]
    ldr     r3, [sp, #COUNT]
    ldr     r9, [sp, #KIND]
    ldm     r10!, {r4, r6, r8, r11, r12, lr}
    str     r10, [sp, #STREAM]
    add     r10, r0, #1
    str     r10, [sp, #START]
    str     r12, [sp, #FACTOR]
    str     lr, [sp, #SHIFT]
    sxtb16  r5, r4, ror #8
    sxtb16  r4, r4
    sxtb16  r7, r6, ror #8
    sxtb16  r6, r6
    tst     r9, #ROW_MISSING_ANY
    bne     .Lrow_0_missing
    /* Here also from below, where rows are missing. */
.Lrow_weights_ready:
    str     r11, [sp, #BIAS]
    zero_column
    tst     r9, #ROW_LEFT
    bne     .Lrow_first
    column
    uxtah   r0, r0, r3
.Lrow_first:
    first   r10
    column
    uxtah   r0, r0, r3
    tst     r9, #ROW_STRIDE2
    second  r9, r10
    bne     .Lrow_stride2_first
    first   r10
    /* One turn: one output with stride 1. OUT is how far it lies from the columns, which go on as the outputs do. */
.Lrow_stride1:
    column
    /* Here also from below, for an output at the edge. */
.Lrow_stride1_column:
    third   lr, r9
    second  r9, r10
    first   r10
    scale_output r12
    strb    lr, [r0, r12]
    uxtah   r0, r0, r3
    subs    r3, r3, #0x10000
    bge     .Lrow_stride1
    /* An output at the edge comes after the last one that is counted; after it, r3 is less than -1 there. */
    ldr     r11, [sp, #KIND]
    cmn     r3, #0x10000
    bcc     .Lrow_next
    tst     r11, #ROW_RIGHT
    beq     .Lrow_next
    zero_column
    b       .Lrow_stride1_column
    /* Here also from below, after outputs with stride 2. */
.Lrow_next:
    ldr     r11, [sp, #LEFT]
    subs    r11, r11, #1
    str     r11, [sp, #LEFT]
    bne     .Lrow_channel
    add     sp, sp, #FRAME
    pop     {r4-r11, pc}

    /* One turn: one output with stride 2, a column more before each but the first. */
.Lrow_stride2:
    column
    uxtah   r0, r0, r3
    second  r9, r9
    b       .Lrow_stride2_output
.Lrow_stride2_first:
    ldr     r10, [sp, #OUT]
    add     r11, r10, #1
    str     r11, [sp, #OUT]
.Lrow_stride2_output:
    column
    /* Here also from below, for an output at the edge. */
.Lrow_stride2_column:
    third   lr, r9
    first   r9
    uxtah   r0, r0, r3
    scale_output
    strb    lr, [r10]
    uxtah   r10, r10, r3
    subs    r3, r3, #0x10000
    bge     .Lrow_stride2
    ldr     r11, [sp, #KIND]
    cmn     r3, #0x10000
    bcc     .Lrow_next
    tst     r11, #ROW_RIGHT
    beq     .Lrow_next
    column
    second  r9, r9
    zero_column
    b       .Lrow_stride2_column

    /* Rows outside the image: their part of the sum is always the same, and their weights become 0. r11 2 * bias. */
.Lrow_0_missing:
    ldr     r12, [sp, #ZEROS]
    tst     r9, #ROW_MISSING
    beq     .Lrow_1_missing
    smulbb  r10, r4, r12
    smlabb  r10, r5, r12, r10
    smlabb  r10, r6, r12, r10
    add     r11, r11, r10, lsl #1
    bfc     r4, #0, #16
    bfc     r5, #0, #16
    bfc     r6, #0, #16
.Lrow_1_missing:
    tst     r9, #ROW_MISSING << 1
    beq     .Lrow_2_missing
    smultb  r10, r4, r12
    smlatb  r10, r5, r12, r10
    smlatb  r10, r6, r12, r10
    add     r11, r11, r10, lsl #1
    uxth    r4, r4
    uxth    r5, r5
    uxth    r6, r6
.Lrow_2_missing:
    tst     r9, #ROW_MISSING << 2
    beq     .Lrow_weights_ready
    smuad   r10, r7, r12
    smlabb  r10, r8, r12, r10
    add     r11, r11, r10, lsl #1
    mov     r7, #0
    bfc     r8, #0, #16
    b       .Lrow_weights_ready
    .size   cortado_depthwise3x3_row_s8__dsp, . - cortado_depthwise3x3_row_s8__dsp
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
