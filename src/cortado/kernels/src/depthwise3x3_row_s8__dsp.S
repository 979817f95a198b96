/* SPDX-License-Identifier: Apache-2.0
 *
 * One row of a 3x3 depthwise convolution with DSP instructions: depthwise3x3_row_s8__dsp.h.
 *
 *   void cortado_depthwise3x3_row_s8__dsp(const cortado_depthwise3x3_row_t *R)
 *
 * Tile: 1 channel x the whole row, the window in registers. Scratch: none.
 *
 * A row of the window is one register: the newest column in its lower half, the one before in its upper half. Before a
 * new column comes in, the upper half is the oldest of the three.
 *
 *              oldest   before   newest           r4 = | row 0 before | row 0 newest |
 *   row 0       w00      w01      w02             r5 = | row 1 before | row 1 newest |
 *   row 1       w10      w11      w12             r6 = | row 2 before | row 2 newest |
 *   row 2       w20      w21      w22             r7 to r9 = | w01 | w02 |, | w11 | w12 |, | w21 | w22 |
 *
 * The stream, for each channel, bytes and then words:
 *
 *   | w02 w12 w01 w11 | w22 w00 w21 w10 | w20 0 0 0 | bias 4 | multiplier 4 | right shift 4, at least 1 |
 *
 *   r0 next column in row 0   r1, r2 from there to rows 1 and 2   r3 bytes between columns (the channels)
 *   r4 to r6 rows of the window   r7 to r9 their weights for the two newest columns
 *   r10 sum, then output   r11 free   r12 out and lr end of the columns, when an output is stored
 */
#include "cortado_asm.h"
#include "depthwise3x3_row_s8__dsp.h"

#if defined(__thumb__) && defined(__ARM_FEATURE_DSP)

/* Frame. */
#define OLDEST 0   /* the weights for the oldest column: of rows 0 and 1, and of row 2 */
#define FACTOR 8   /* multiplier, right shift */
#define OUT 16     /* out (with stride 1 from the next column to it), end of the columns */
#define BIAS 24
#define OFFSET 28
#define LAYER 32   /* R */
#define CHANNEL 36
#define STREAM 40
#define EDGE 44    /* whether the pixel at the edge is still to come */
#define FRAME 48

/* A new column comes into the window. */
    .macro column
    ldrsb   r11, [r0]
    ldrsb   r12, [r0, r1]
    ldrsb   lr, [r0, r2]
    pkhbt   r4, r11, r4, lsl #16
    pkhbt   r5, r12, r5, lsl #16
    pkhbt   r6, lr, r6, lsl #16
    .endm

/* The output of the window that the next column completes, in r10; out and end in r12 and lr. */
    .macro output
    ldr     r10, [sp, #BIAS]
    ldrd    r12, lr, [sp, #OLDEST]
    smlatb  r10, r4, r12, r10
    smlatt  r10, r5, r12, r10
    smlatb  r10, r6, lr, r10
    column
    smlad   r10, r4, r7, r10
    smlad   r10, r5, r8, r10
    smlad   r10, r6, r9, r10
    ldrd    r12, lr, [sp, #FACTOR]
    ldr     r11, [sp, #OFFSET]
    lsl     r10, r10, #1
    smmulr  r10, r10, r12
    adds    r10, r10, r10, asr #31
    asrs    r10, r10, lr
    adc     r10, r10, r11
    ldrd    r12, lr, [sp, #OUT]
    ssat    r10, #8, r10
    .endm

/* Whether the pixel at the edge is to come; \next if not. All values of its last column are the zero point's. */
    .macro edge next
    ldr     r10, [sp, #EDGE]
    cmp     r10, #0
    beq     \next
    mov     r10, #0
    str     r10, [sp, #EDGE]
    .endm

/* The next column is the zero-point pixel's, in every row, and the last. */
    .macro zero_column
    ldr     r10, [sp, #LAYER]
    ldr     r11, [sp, #CHANNEL]
    ldr     r0, [r10, #ROW_ZERO]
    mov     r1, #0
    mov     r2, #0
    add     r0, r0, r11
    add     lr, r0, r3
    .endm

/* The first two columns of one row, \at bytes into R->first, of the channel in r1. */
    .macro first_columns row, at
    ldrd    r10, r11, [r0, #ROW_FIRST + \at]
    ldrsb   r10, [r10, r1]
    ldrsb   r11, [r11, r1]
    pkhbt   \row, r11, r10, lsl #16
    .endm

    function cortado_depthwise3x3_row_s8__dsp
    push    {r4-r11, lr}
    sub     sp, sp, #FRAME
    ldr     r1, [r0, #ROW_OFFSET]
    str     r0, [sp, #LAYER]
    str     r1, [sp, #OFFSET]
    ldr     r10, [r0, #ROW_STREAM]
    mov     r1, #0
    str     r10, [sp, #STREAM]
    /* One turn: one channel of the whole row. */
.Lrow_channel:
    str     r1, [sp, #CHANNEL]
    first_columns r4, 0
    first_columns r5, 8
    first_columns r6, 16
    ldr     r10, [sp, #STREAM]
    ldr     lr, [r0, #ROW_MISSING]
    ldrd    r2, r11, [r10], #8
    sxtb16  r7, r2
    sxtb16  r8, r2, ror #8
    sxtb16  r9, r11
    sxtb16  r11, r11, ror #8
    ldrd    r12, r2, [r10], #8
    sxtb    r12, r12
    cmp     lr, #0
    bne     .Lrow_0_missing
    /* Here also from below, where rows are missing. */
.Lrow_weights_ready:
    strd    r11, r12, [sp, #OLDEST]
    str     r2, [sp, #BIAS]
    ldrd    r11, r12, [r10], #8
    strd    r11, r12, [sp, #FACTOR]
    str     r10, [sp, #STREAM]
    ldr     r11, [r0, #ROW_EDGE]
    str     r11, [sp, #EDGE]
    ldrd    r3, r10, [r0, #ROW_CHANNELS]
    ldr     r12, [r0, #ROW_NEXT]
    ldr     r11, [r0, #ROW_END]
    add     r10, r10, r1
    add     r12, r12, r1
    add     r11, r11, r1
    ldrd    r1, r2, [r0, #ROW_NEXT_ROWS]
    ldr     lr, [r0, #ROW_STRIDE]
    mov     r0, r12
    cmp     lr, #1
    bne     .Lrow_stride2_first
    sub     r10, r10, r0
    strd    r10, r11, [sp, #OUT]

    /* One turn: one output with stride 1. out moves on as the columns do. */
.Lrow_stride1:
    output
    strb    r10, [r0, r12]
    add     r0, r0, r3
    cmp     r0, lr
    bne     .Lrow_stride1
    edge    .Lrow_channel_done
    add     r12, r12, r0
    zero_column
    sub     r12, r12, r0
    strd    r12, lr, [sp, #OUT]
    b       .Lrow_stride1

    /* One turn: one output with stride 2, a column more before each but the first. */
.Lrow_stride2:
    column
    add     r0, r0, r3
    b       .Lrow_stride2_output
.Lrow_stride2_first:
    strd    r10, r11, [sp, #OUT]
    /* Here also from below, for the pixel at the edge. */
.Lrow_stride2_output:
    output
    strb    r10, [r12]
    add     r12, r12, r3
    add     r0, r0, r3
    str     r12, [sp, #OUT]
    cmp     r0, lr
    bne     .Lrow_stride2
    edge    .Lrow_channel_done
    column
    zero_column
    str     lr, [sp, #OUT + 4]
    b       .Lrow_stride2_output

.Lrow_channel_done:
    ldr     r1, [sp, #CHANNEL]
    ldr     r0, [sp, #LAYER]
    add     r1, r1, #1
    cmp     r1, r3
    bne     .Lrow_channel
    add     sp, sp, #FRAME
    pop     {r4-r11, pc}

    /* Rows outside the image: their part of the sum is always the same, and their weights become 0. */
.Lrow_0_missing:
    ldr     r3, [r0, #ROW_INPUT_ZERO]
    pkhbt   r3, r3, r3, lsl #16
    tst     lr, #1
    beq     .Lrow_1_missing
    smlad   r2, r7, r3, r2
    smlabb  r2, r11, r3, r2
    mov     r7, #0
    bfc     r11, #0, #16
.Lrow_1_missing:
    tst     lr, #2
    beq     .Lrow_2_missing
    smlad   r2, r8, r3, r2
    smlatb  r2, r11, r3, r2
    mov     r8, #0
    bfc     r11, #16, #16
.Lrow_2_missing:
    tst     lr, #4
    beq     .Lrow_weights_ready
    smlad   r2, r9, r3, r2
    smlabb  r2, r12, r3, r2
    mov     r9, #0
    mov     r12, #0
    b       .Lrow_weights_ready
    .size   cortado_depthwise3x3_row_s8__dsp, . - cortado_depthwise3x3_row_s8__dsp
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
