/* SPDX-License-Identifier: Apache-2.0
 *
 * 1x1 convolution of at most sixteen input channels with vector instructions: conv_shallow_s8__mve.h.
 *
 *   void cortado_conv_shallow_s8__mve(const cortado_conv_shallow_t *T)
 *
 * Tile: 2 pixels x 4 channels, whose weights stay in registers. Scratch: none.
 *
 * The stream is that of conv_tile_s8__mve.S, but that the last four channels may have some of those before. Channels
 * are the outer loop, so an output is stored when other pixels are still to be read. An odd last pixel is made together
 * with the one before it, which is made again.
 *
 *   r0, r2, r4, r6 sums of channels a to d of the first pixel   r8, r10, r0, r2 of the second
 *   r1 x   r3 out   r5 stream   r12, r9 steps of x and out   r11 output offset   lr turns left
 *   r7 where the second pixel of the turn before is stored
 *   q0 to q3 weights   q4, q5 x, then outputs   q6 factors or low   q7 high
 */
#include "conv_shallow_s8__mve.h"
#include "cortado_asm.h"

#if defined(__ARM_FEATURE_MVE)

/* Frame. */
#define LOW 0   /* in all lanes */
#define T 16    /* the layer */
#define LEFT 20 /* channels */
#define OUT 24  /* where those of the first pixel go */
#define ODD 28  /* whether the last pixel is still to be made */
#define FRAME 32

/* The stream of four channels. */
#define WEIGHTS 16
#define FACTORS (WEIGHTS + 4 * 16)
#define FOUR_CHANNELS (FACTORS + 2 * 16)

/* Ties go away from zero: negative values are decremented before the shift. */
    .macro decrement value, ties
    .if \ties
    vshr.s32 q6, \value, #31
    vadd.i32 \value, \value, q6
    .endif
    .endm

/* Where the output in q5 was to be stored is in r7. */
    .macro finish_second
    vadd.i32 q5, q5, r11
    vldrw.32 q6, [sp, #LOW]
    vmin.s32 q5, q5, q7
    vmax.s32 q5, q5, q6
    vstrb.32 q5, [r7]
    .endm

/* Two pixels; the second one of the turn before is finished beside the products of the first. */
    .macro two_pixels ties
    vpst
    vldrbt.8 q4, [r1]
    vadd.i32 q5, q5, r11
    vmladava.s8 r0, q4, q0
    vldrw.32 q6, [sp, #LOW]
    add     r1, r1, r12
    vmladava.s8 r2, q4, q1
    vmin.s32 q5, q5, q7
    ldrd    r8, r10, [r5]
    vmladava.s8 r4, q4, q2
    vmax.s32 q5, q5, q6
    vmladava.s8 r6, q4, q3
    vstrb.32 q5, [r7]
    vpst
    vldrbt.8 q5, [r1]
    vmov    d8, r0, r2
    vmladava.s8 r8, q5, q0
    vldrw.32 q6, [r5, #FACTORS]
    vmov    d9, r4, r6
    vmladava.s8 r10, q5, q1
    ldrd    r0, r2, [r5, #8]
    vqrdmulh.s32 q4, q4, q6
    add     r1, r1, r12
    vmladava.s8 r0, q5, q2
    decrement q4, \ties
    vldrw.32 q6, [r5, #FACTORS + 16]
    vmladava.s8 r2, q5, q3
    vrshl.s32 q4, q4, q6
    vldrw.32 q6, [r5, #FACTORS]
    vmov    d10, r8, r10
    vmov    d11, r0, r2
    ldrd    r4, r6, [r5, #8]
    vqrdmulh.s32 q5, q5, q6
    vadd.i32 q4, q4, r11
    add     r7, r3, r9
    decrement q5, \ties
    vldrw.32 q6, [r5, #FACTORS + 16]
    vmin.s32 q4, q4, q7
    ldrd    r0, r2, [r5]
    vrshl.s32 q5, q5, q6
    vldrw.32 q6, [sp, #LOW]
    vmax.s32 q4, q4, q6
    vstrb.32 q4, [r3]
    add     r3, r7, r9
    .endm

    function cortado_conv_shallow_s8__mve
    push    {r4-r11, lr}
    vpush   {d8-d15}
    sub     sp, sp, #FRAME
    ldrd    r5, r4, [r0, #SHALLOW_STREAM]
    ldr     r11, [r0, #SHALLOW_OFFSET]
    ldrd    r1, r2, [r0, #SHALLOW_LOW]
    vdup.32 q6, r1
    vdup.32 q7, r2
    vstrw.32 q6, [sp, #LOW]
    ldr     r2, [r0, #SHALLOW_CHANNELS]
    strd    r0, r2, [sp, #T]
    ldr     r3, [r0, #SHALLOW_X + 4]
    ldrd    r12, r9, [r0, #SHALLOW_STEP]
    vctp.8  r4
    /* One turn: four channels. */
.Lshallow_four:
    ldr     r1, [r0, #SHALLOW_X]
    ldrd    lr, r2, [r0, #SHALLOW_PAIRS]
    strd    r3, r2, [sp, #OUT]
    vldrw.32 q0, [r5, #WEIGHTS]
    vldrw.32 q1, [r5, #WEIGHTS + 16]
    vldrw.32 q2, [r5, #WEIGHTS + 32]
    vldrw.32 q3, [r5, #WEIGHTS + 48]
    /* One turn: all pairs, or the one with an odd last pixel. */
.Lshallow_run:
    mov     r7, r3
    ldr     r2, [r0, #SHALLOW_LOW]
    cmp     r2, r11
    ldrd    r0, r2, [r5]
    ldrd    r4, r6, [r5, #8]
    beq     .Lshallow_no_ties
    /* One turn: two pixels. */
.Lshallow_ties:
    two_pixels 1
    le      lr, .Lshallow_ties
    b       .Lshallow_made
    /* One turn: two pixels, of which a negative output is the lowest there is, whichever way it is rounded. */
.Lshallow_no_ties:
    two_pixels 0
    le      lr, .Lshallow_no_ties
.Lshallow_made:
    finish_second
    ldrd    r0, r2, [sp, #T]
    ldr     r7, [sp, #ODD]
    cmp     r7, #0
    beq     .Lshallow_next
    /* One pixel back, and a pair more. */
    movs    r6, #0
    str     r6, [sp, #ODD]
    mov     lr, #1
    sub     r1, r1, r12
    sub     r3, r3, r9
    b       .Lshallow_run
.Lshallow_next:
    ldr     r3, [sp, #OUT]
    subs    r2, r2, #4
    add     r5, r5, #FOUR_CHANNELS
    add     r3, r3, #4
    beq     .Lshallow_return
    /* The next four channels, or the last four. */
    rsbs    r4, r2, #4
    itt     gt
    subgt   r3, r3, r4
    movgt   r2, #4
    str     r2, [sp, #LEFT]
    b       .Lshallow_four
.Lshallow_return:
    add     sp, sp, #FRAME
    vpop    {d8-d15}
    pop     {r4-r11, pc}
    .size   cortado_conv_shallow_s8__mve, . - cortado_conv_shallow_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
