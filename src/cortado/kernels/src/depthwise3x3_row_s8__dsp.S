/* SPDX-License-Identifier: Apache-2.0
 *
 * cortado_depthwise3x3_row_s8__dsp of depthwise3x3_row_s8__dsp.h.
 *
 *   void cortado_depthwise3x3_row_s8__dsp(const cortado_depthwise3x3_row_t *S)
 *
 * A row of the window is one register: the newest column in its lower half, the one before in its upper half. Before a
 * new column comes in, the upper half is the oldest of the three.
 *
 * The stream has, for each channel, its weights w[row][column] as bytes w02 w12 w01 w11, w22 w00 w21 w10, w20 and three
 * zeros; then bias, multiplier and right shift, at least 1, as words.
 */
#include "cortado_asm.h"

#if defined(__thumb__) && defined(__ARM_FEATURE_DSP)

#define S_STREAM 0
#define S_CHANNELS 4
#define S_FIRST 12
#define S_NEXT 36
#define S_END 48
#define S_EDGE 52
#define S_ZERO 56
#define S_STRIDE 60
#define S_OFFSET 64
#define S_MISSING 68

/* r0 next column, r1 and r2 from there to the other rows, r3 bytes between columns (the channels), r4 to r6 the rows of
 * the window, r7 to r9 their weights for the two newest columns.
 * Frame: the weights for the oldest column, of rows 0 and 1, and of row 2; multiplier, right shift; out (with stride 1
 * from the next column to it), end; bias, output offset; S, channel, stream, whether the pixel at the edge is still to
 * come. */
#define OLDEST 0
#define FACTOR 8
#define OUT 16
#define BIAS 24
#define OFFSET 28
#define SLIDE 32
#define CHANNEL 36
#define STREAM 40
#define EDGE 44
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

    .macro zero_column
    ldr     r10, [sp, #SLIDE]
    ldr     r11, [sp, #CHANNEL]
    ldr     r0, [r10, #S_ZERO]
    mov     r1, #0
    mov     r2, #0
    add     r0, r0, r11
    add     lr, r0, r3
    .endm

    .macro first_columns row, at
    ldrd    r10, r11, [r0, #S_FIRST + \at]
    ldrsb   r10, [r10, r1]
    ldrsb   r11, [r11, r1]
    pkhbt   \row, r11, r10, lsl #16
    .endm

    function cortado_depthwise3x3_row_s8__dsp
    push    {r4-r11, lr}
    sub     sp, sp, #FRAME
    ldr     r1, [r0, #S_OFFSET]
    str     r0, [sp, #SLIDE]
    str     r1, [sp, #OFFSET]
    ldr     r10, [r0, #S_STREAM]
    mov     r1, #0
    str     r10, [sp, #STREAM]
0:  str     r1, [sp, #CHANNEL]
    first_columns r4, 0
    first_columns r5, 8
    first_columns r6, 16
    ldr     r10, [sp, #STREAM]
    ldr     lr, [r0, #S_MISSING]
    ldrd    r2, r11, [r10], #8
    sxtb16  r7, r2
    sxtb16  r8, r2, ror #8
    sxtb16  r9, r11
    sxtb16  r11, r11, ror #8
    ldrd    r12, r2, [r10], #8
    sxtb    r12, r12
    cmp     lr, #0
    bne     6f
1:  strd    r11, r12, [sp, #OLDEST]
    str     r2, [sp, #BIAS]
    ldrd    r11, r12, [r10], #8
    strd    r11, r12, [sp, #FACTOR]
    str     r10, [sp, #STREAM]
    ldr     r11, [r0, #S_EDGE]
    str     r11, [sp, #EDGE]
    ldrd    r3, r10, [r0, #S_CHANNELS]
    ldr     r12, [r0, #S_NEXT]
    ldr     r11, [r0, #S_END]
    add     r10, r10, r1
    add     r12, r12, r1
    add     r11, r11, r1
    ldrd    r1, r2, [r0, #S_NEXT + 4]
    ldr     lr, [r0, #S_STRIDE]
    mov     r0, r12
    cmp     lr, #1
    bne     4f
    sub     r10, r10, r0
    strd    r10, r11, [sp, #OUT]

    /* Stride 1: out moves on as the columns do. */
2:  output
    strb    r10, [r0, r12]
    add     r0, r0, r3
    cmp     r0, lr
    bne     2b
    edge    5f
    add     r12, r12, r0
    zero_column
    sub     r12, r12, r0
    strd    r12, lr, [sp, #OUT]
    b       2b

    /* Stride 2: a column more before each output but the first. */
3:  column
    add     r0, r0, r3
    b       7f
4:  strd    r10, r11, [sp, #OUT]
7:  output
    strb    r10, [r12]
    add     r12, r12, r3
    add     r0, r0, r3
    str     r12, [sp, #OUT]
    cmp     r0, lr
    bne     3b
    edge    5f
    column
    zero_column
    str     lr, [sp, #OUT + 4]
    b       7b

5:  ldr     r1, [sp, #CHANNEL]
    ldr     r0, [sp, #SLIDE]
    add     r1, r1, #1
    cmp     r1, r3
    bne     0b
    add     sp, sp, #FRAME
    pop     {r4-r11, pc}

    /* Rows outside the image: their part of the sum is always the same, and their weights become 0. */
6:  ldr     r3, [r0, #S_MISSING + 4]
    pkhbt   r3, r3, r3, lsl #16
    tst     lr, #1
    beq     8f
    smlad   r2, r7, r3, r2
    smlabb  r2, r11, r3, r2
    mov     r7, #0
    bfc     r11, #0, #16
8:  tst     lr, #2
    beq     8f
    smlad   r2, r8, r3, r2
    smlatb  r2, r11, r3, r2
    mov     r8, #0
    bfc     r11, #16, #16
8:  tst     lr, #4
    beq     1b
    smlad   r2, r9, r3, r2
    smlabb  r2, r12, r3, r2
    mov     r9, #0
    mov     r12, #0
    b       1b
    .size   cortado_depthwise3x3_row_s8__dsp, . - cortado_depthwise3x3_row_s8__dsp
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
