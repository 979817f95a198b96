/* SPDX-License-Identifier: Apache-2.0
 *
 * CORTADO_ISA(cortado_conv_tile2_s8) and CORTADO_ISA(cortado_conv_tile4_s8) of conv_tile_s8__scalar_dsp.h.
 *
 *   const int8_t *cortado_blockN(const cortado_conv_tile_t *B, const void *x, int32_t pixels, int8_t *out)
 */
#include "cortado_asm.h"

#if defined(__thumb__)

#define B_STREAM 0
#define B_DEPTH 4
#define B_CHANNELS 8
#define B_STRIDE 12

#if CORTADO_SMALL_CORE

/* Frame: sums of up to 4 pixels, end of the sums, end of the channels, B, x, end of x, out, stream. */
#define SUMS 0
#define SUMS_END 16
#define OUT_END 20
#define BLOCK 24
#define X 28
#define X_END 32
#define OUT 36
#define STREAM 40
#define FRAME 44

    .macro enter log2_bytes
    push    {r4-r7, lr}
    mov     r4, r8
    mov     r5, r9
    mov     r6, r10
    mov     r7, r11
    push    {r4-r7}
    sub     sp, sp, #FRAME
    str     r0, [sp, #BLOCK]
    str     r1, [sp, #X]
    str     r3, [sp, #OUT]
    lsls    r2, r2, #2
    add     r2, r2, sp
    str     r2, [sp, #SUMS_END]
    ldr     r2, [r0, #B_CHANNELS]
    adds    r3, r3, r2
    str     r3, [sp, #OUT_END]
    ldr     r2, [r0, #B_DEPTH]
    lsls    r2, r2, #\log2_bytes
    adds    r2, r2, r1
    str     r2, [sp, #X_END]
    ldr     r1, [r0, #B_STREAM]
    .endm

    /* r0 x, r1 stream, lr end of x; r8/r9 and r10/r11 total and upper lanes of each pair; r12 rounds the upper lane. */
    .macro start
    ldr     r0, [sp, #X_END]
    mov     lr, r0
    movs    r0, #1
    lsls    r0, r0, #15
    mov     r12, r0
    movs    r0, #0
    mov     r8, r0
    mov     r9, r0
    .endm

    .macro collect word, total, upper
    add     \total, \word
    add     \word, r12
    asrs    \word, \word, #16
    add     \upper, \word
    .endm

    /* Both lanes of a pair, with the bias in r2. */
    .macro separate total, upper, at
    mov     r5, \upper
    lsls    r6, r5, #16
    mov     r4, \total
    subs    r4, r4, r6
    adds    r4, r4, r2
    adds    r5, r5, r2
    str     r4, [sp, #SUMS + \at]
    str     r5, [sp, #SUMS + \at + 4]
    .endm

    /* Scales and stores the sums, then the next channel or the end. r1 stream (at the factors), r2 free.
     * Then: r4 and r5 the signed lower and upper half of the multiplier, r6 the sums, r7 out, r8 shift word, r9 offset,
     * r10 low, r11 high, r12 2^14, lr stride. */
    .macro finish channel
    ldmia   r1!, {r4, r5}
    mov     r8, r5
    lsrs    r5, r4, #16
    sxth    r4, r4
    str     r1, [sp, #STREAM]
    ldr     r0, [sp, #BLOCK]
    ldr     r7, [sp, #OUT]
    adds    r0, r0, #B_STRIDE
    ldmia   r0!, {r1, r2, r3, r6}
    mov     lr, r1
    mov     r9, r2
    mov     r10, r3
    mov     r11, r6
    movs    r6, #1
    lsls    r6, r6, #14
    mov     r12, r6
    mov     r6, sp
2:  ldmia   r6!, {r0}
    scale_small
    limit_small
    strb    r0, [r7]
    add     r7, r7, lr
    ldr     r1, [sp, #SUMS_END]
    cmp     r6, r1
    bne     2b
    ldr     r1, [sp, #STREAM]
    ldr     r2, [sp, #OUT]
    adds    r2, r2, #1
    str     r2, [sp, #OUT]
    ldr     r3, [sp, #OUT_END]
    cmp     r2, r3
    beq     5f
    b       \channel
5:  movs    r0, r1
    add     sp, sp, #FRAME
    pop     {r4-r7}
    mov     r8, r4
    mov     r9, r5
    mov     r10, r6
    mov     r11, r7
    pop     {r4-r7, pc}
    .endm

    function CORTADO_ISA(cortado_conv_tile2_s8)
    enter   2
0:  start
    ldr     r0, [sp, #X]
1:  ldmia   r1!, {r6}
    ldmia   r0!, {r2-r5}
    sxtb    r7, r6
    muls    r2, r7, r2
    asrs    r6, r6, #8
    sxtb    r7, r6
    muls    r3, r7, r3
    adds    r2, r2, r3
    collect r2, r8, r9
    asrs    r6, r6, #8
    sxtb    r7, r6
    muls    r4, r7, r4
    asrs    r6, r6, #8
    muls    r5, r6, r5
    adds    r4, r4, r5
    collect r4, r8, r9
    cmp     r0, lr
    bne     1b
    ldmia   r1!, {r2}
    separate r8, r9, 0
    finish  0b
    .size   CORTADO_ISA(cortado_conv_tile2_s8), . - CORTADO_ISA(cortado_conv_tile2_s8)

    function CORTADO_ISA(cortado_conv_tile4_s8)
    enter   3
0:  start
    mov     r10, r0
    mov     r11, r0
    ldr     r0, [sp, #X]
1:  ldmia   r1!, {r6}
    ldmia   r0!, {r2-r5}
    sxtb    r7, r6
    muls    r2, r7, r2
    muls    r3, r7, r3
    asrs    r6, r6, #8
    sxtb    r7, r6
    muls    r4, r7, r4
    muls    r5, r7, r5
    adds    r2, r2, r4
    adds    r3, r3, r5
    collect r2, r8, r9
    collect r3, r10, r11
    ldmia   r0!, {r2-r5}
    asrs    r6, r6, #8
    sxtb    r7, r6
    muls    r2, r7, r2
    muls    r3, r7, r3
    asrs    r6, r6, #8
    muls    r4, r6, r4
    muls    r5, r6, r5
    adds    r2, r2, r4
    adds    r3, r3, r5
    collect r2, r8, r9
    collect r3, r10, r11
    cmp     r0, lr
    bne     1b
    ldmia   r1!, {r2}
    separate r8, r9, 0
    separate r10, r11, 8
    finish  0b
    .size   CORTADO_ISA(cortado_conv_tile4_s8), . - CORTADO_ISA(cortado_conv_tile4_s8)

#else

/* Two or four sums, r4 on, to one channel of their pixels; its factors are next in the stream, r1. A last pixel that is
 * none goes where the one before it went (its inputs are the same): \step is 0 then. */
    .macro store_channel count, block, step, out
    ldrd    r8, r9, [r1], #8
    ldr     r2, [sp, #\block]
    add     r2, r2, #B_STRIDE
    ldm     r2, {r3, r10, r11, r12}
    ubfx    r0, r9, #8, #5
    scale   r4
    scale   r5
    .if \count == 4
    scale   r6
    scale   r7
    .endif
    sub     lr, r12, r11
    ldrd    r8, r2, [sp, #\step]
    cmp     lr, #255
    bne     7f
    ssat    r4, #8, r4
    ssat    r5, #8, r5
    .if \count == 4
    ssat    r6, #8, r6
    ssat    r7, #8, r7
    .endif
    b       8f
7:  limit   r4
    limit   r5
    .if \count == 4
    limit   r6
    limit   r7
    .endif
8:  strb    r4, [r2]
    .if \count == 4
    strb    r5, [r2, r3]
    strb    r6, [r2, r3, lsl #1]
    add     r8, r8, r3, lsl #1
    strb    r7, [r2, r8]
    .else
    strb    r5, [r2, r8]
    .endif
    adds    r2, r2, #1
    str     r2, [sp, #\out]
    .endm

#if defined(__ARM_FEATURE_DSP)

/* Frame: end of the channels, end of x, whether four products come before the eights, B, x, step to the last pixel,
 * out. */
#define OUT_END 0
#define X_END 4
#define FOUR 8
#define BLOCK 12
#define X 16
#define STEP 20
#define OUT 24

    .macro enter count
    push    {r0-r11, lr}
    sub     sp, sp, #12
    ldr     r4, [r0, #B_STRIDE]
    cmp     r2, #\count
    it      ne
    movne   r4, #0
    str     r4, [sp, #STEP]
    ldr     r4, [r0, #B_CHANNELS]
    add     r4, r4, r3
    str     r4, [sp, #OUT_END]
    ldr     r4, [r0, #B_DEPTH]
    .if \count == 4
    add     r5, r1, r4, lsl #3
    .else
    add     r5, r1, r4, lsl #2
    .endif
    and     r4, r4, #4
    strd    r5, r4, [sp, #X_END]
    ldr     r1, [r0, #B_STREAM]
    .endm

    .macro leave channel
    ldr     r0, [sp, #OUT_END]
    cmp     r2, r0
    bne     \channel
    mov     r0, r1
    add     sp, sp, #28
    pop     {r4-r11, pc}
    .endm

/* int32_t *cortado_conv_tile_expand_s8__dsp(int32_t *to, int32_t words, const int8_t *x, int32_t n)
 *
 * The bytes past the last of n are zeros, and not read. Returns where the next ones go. */
    function cortado_conv_tile_expand_s8__dsp
    push    {r4, lr}
    lsls    r1, r1, #2
    b       2f
0:  ldr     r12, [r2], #4
1:  sxtb16  r4, r12
    sxtb16  r12, r12, ror #8
    str     r4, [r0]
    str     r12, [r0, r1]
    add     r0, r0, r1, lsl #1
2:  subs    r3, r3, #4
    bge     0b
    mov     r12, #0
    adds    r3, r3, #4
    ble     4f
3:  subs    r3, r3, #1
    ldrb    r4, [r2, r3]
    orr     r12, r4, r12, lsl #8
    bne     3b
    b       1b
4:  pop     {r4, pc}
    .size   cortado_conv_tile_expand_s8__dsp, . - cortado_conv_tile_expand_s8__dsp

    .macro products4
    ldm     r0!, {r8-r11}
    smlad   r4, r8, r12, r4
    smlad   r5, r9, r12, r5
    smlad   r6, r10, r12, r6
    smlad   r7, r11, r12, r7
    .endm

    function CORTADO_ISA(cortado_conv_tile4_s8)
    enter   4
0:  ldr     r4, [r1], #4
    ldr     r0, [sp, #X]
    ldrd    lr, r2, [sp, #X_END]
    mov     r5, r4
    mov     r6, r4
    mov     r7, r4
    cbz     r2, 1f
    ldr     r3, [r1], #4
    b       2f
1:  ldrd    r2, r3, [r1], #8
    sxtb16  r12, r2
    products4
    sxtb16  r12, r2, ror #8
    products4
2:  sxtb16  r12, r3
    products4
    sxtb16  r12, r3, ror #8
    products4
    cmp     r0, lr
    bne     1b
    store_channel 4, BLOCK, STEP, OUT
    leave   0b
    .size   CORTADO_ISA(cortado_conv_tile4_s8), . - CORTADO_ISA(cortado_conv_tile4_s8)

    .macro products2 weights
    ldm     r0!, {r8-r11}
    sxtb16  r12, \weights
    smlad   r4, r8, r12, r4
    smlad   r5, r9, r12, r5
    sxtb16  r12, \weights, ror #8
    smlad   r4, r10, r12, r4
    smlad   r5, r11, r12, r5
    .endm

    function CORTADO_ISA(cortado_conv_tile2_s8)
    enter   2
0:  ldr     r4, [r1], #4
    ldr     r0, [sp, #X]
    ldrd    lr, r2, [sp, #X_END]
    mov     r5, r4
    cbz     r2, 1f
    ldr     r3, [r1], #4
    b       2f
1:  ldrd    r2, r3, [r1], #8
    products2 r2
2:  products2 r3
    cmp     r0, lr
    bne     1b
    store_channel 2, BLOCK, STEP, OUT
    leave   0b
    .size   CORTADO_ISA(cortado_conv_tile2_s8), . - CORTADO_ISA(cortado_conv_tile2_s8)

#else

/* Frame: the sums of two channels, four words each; end of x, whether this is the second channel, end of the channels,
 * B, x, step to the last pixel, out. */
#define SUMS 0
#define X_END 32
#define SECOND 36
#define OUT_END 40
#define BLOCK 44
#define X 48
#define STEP 52
#define OUT 56
#define RUN 252 /* products whose lower lane fits in any case; a multiple of 4 */

    .macro enter count
    push    {r0-r11, lr}
    sub     sp, sp, #44
    ldr     r4, [r0, #B_STRIDE]
    cmp     r2, #\count
    it      ne
    movne   r4, #0
    str     r4, [sp, #STEP]
    ldr     r4, [r0, #B_CHANNELS]
    add     r4, r4, r3
    ldr     r5, [r0, #B_DEPTH]
    .if \count == 4
    add     r5, r1, r5, lsl #3
    .else
    add     r5, r1, r5, lsl #2
    .endif
    str     r5, [sp, #X_END]
    str     r4, [sp, #OUT_END]
    ldr     r1, [r0, #B_STREAM]
    .endm

    /* All sums start at their channel's bias. */
    .macro start
    ldrd    r4, r6, [r1], #8
    ldr     r0, [sp, #X]
    mov     r5, r4
    mov     r7, r6
    strd    r4, r5, [sp, #SUMS]
    strd    r4, r5, [sp, #SUMS + 8]
    strd    r6, r7, [sp, #SUMS + 16]
    strd    r6, r7, [sp, #SUMS + 24]
    .endm

    /* lr = end of the next run. */
    .macro next_run bytes
    ldr     lr, [sp, #X_END]
    sub     r2, lr, r0
    cmp     r2, #RUN * \bytes
    it      gt
    addgt   lr, r0, #RUN * \bytes
    .endm

    /* Adds both lanes of a 64-bit sum that started at half a lane. */
    .macro separate low, high, at
    ldrd    r2, r3, [sp, #SUMS + \at]
    ubfx    r12, \low, #0, #23
    lsrs    \low, \low, #23
    sub     r12, r12, #0x400000
    orr     \low, \low, \high, lsl #9
    add     r2, r2, r12
    add     r3, r3, \low
    strd    r2, r3, [sp, #SUMS + \at]
    .endm

    /* Both channels, or the one that is left; then the next two. */
    .macro channels count, channel
    ldm     sp, {r4-r7}
    movs    r0, #0
3:  str     r0, [sp, #SECOND]
    store_channel \count, BLOCK, STEP, OUT
    ldrd    r3, r0, [sp, #SECOND]
    cmp     r2, r0
    beq     4f
    cbnz    r3, 5f
    add     r0, sp, #16
    ldm     r0, {r4-r7}
    b       3b
5:  b       \channel
4:  cmp     r3, #0
    ite     eq
    addeq   r0, r1, #8
    movne   r0, r1
    add     sp, sp, #60
    pop     {r4-r11, pc}
    .endm

    .macro products4
    ldrd    r2, r3, [r0], #8
    ldrsb   r12, [r1], #1
    smlal   r4, r5, r2, r12
    smlal   r6, r7, r3, r12
    ldrsb   r12, [r1], #1
    smlal   r8, r9, r2, r12
    smlal   r10, r11, r3, r12
    .endm

    function CORTADO_ISA(cortado_conv_tile4_s8)
    enter   4
0:  start
1:  next_run 8
    mov     r4, #0x400000
    movs    r5, #0
    mov     r6, r4
    mov     r7, r5
    mov     r8, r4
    mov     r9, r5
    mov     r10, r4
    mov     r11, r5
2:  products4
    products4
    products4
    products4
    cmp     r0, lr
    bne     2b
    separate r4, r5, 0
    separate r6, r7, 8
    separate r8, r9, 16
    separate r10, r11, 24
    ldr     lr, [sp, #X_END]
    cmp     r0, lr
    bne     1b
    channels 4, 0b
    .size   CORTADO_ISA(cortado_conv_tile4_s8), . - CORTADO_ISA(cortado_conv_tile4_s8)

    .macro products2
    ldr     r2, [r0], #4
    ldrsb   r12, [r1], #1
    smlal   r4, r5, r2, r12
    ldrsb   r12, [r1], #1
    smlal   r8, r9, r2, r12
    .endm

    function CORTADO_ISA(cortado_conv_tile2_s8)
    enter   2
0:  start
1:  next_run 4
    mov     r4, #0x400000
    movs    r5, #0
    mov     r8, r4
    mov     r9, r5
2:  products2
    products2
    products2
    products2
    cmp     r0, lr
    bne     2b
    separate r4, r5, 0
    separate r8, r9, 16
    ldr     lr, [sp, #X_END]
    cmp     r0, lr
    bne     1b
    channels 2, 0b
    .size   CORTADO_ISA(cortado_conv_tile2_s8), . - CORTADO_ISA(cortado_conv_tile2_s8)

#endif
#endif
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
