/* SPDX-License-Identifier: Apache-2.0
 *
 * All output channels of one pixel or two with vector instructions: conv_tile_s8__mve.h.
 *
 *   const int8_t *cortado_conv_tile1_s8__mve(const cortado_conv_tile_mve_t *T, const int8_t *x, int8_t *out)
 *   const int8_t *cortado_conv_tile2_s8__mve(const cortado_conv_tile_mve_t *T, const int8_t *x0, const int8_t *x1,
 *                                            int8_t *out0, int8_t *out1)
 *
 * Tile: 1 or 2 pixels x 4 channels. Scratch: none.
 *
 * The stream, for each four channels a, b, c, d; those that make a four whole are zeros:
 *
 *   | biases 4 x 4 |
 *   | a r | b r | c r | d r |      the first r products of each, 1 to 16, and zeros up to 16
 *   | a 16 | b 16 | c 16 | d 16 |  sixteen more of each, as often as there are
 *   | multipliers 4 x 4 | shifts 4 x 4, negative: to the right |
 *
 * VMLADAVA sums into an even core register, from the bias on. Of two pixels, four channels' sums become outputs while
 * the first products of the next four are made:
 *
 *   r0, r2, r4, r6 channels a to d of the first pixel   r8, r10, r12, lr of the second   r1, r3 their outputs
 *   r5 stream   r9, r11 x of the first and second pixel   r7 turns left, or free
 *   q0, q1, q4, q5 x   q2, q3 weights   q6, q7 sums of the four channels before   q4, q5 what they are scaled with
 */
#include "conv_tile_s8__mve.h"
#include "cortado_asm.h"

#if defined(__ARM_FEATURE_MVE)

/* Frame. */
#define LOOPS 0   /* blocks behind the first one: twice the turns of two, and one more if there is one by itself */
#define OFFSET 4  /* of outputs */
#define X 8       /* x0, x1 */
#define NEXT 16   /* the same behind the first products */
#define LAST 24   /* where the first pixel's last four outputs go */
#define LOW 32    /* in all lanes */
#define HIGH 48   /* in all lanes */
#define FRAME 64

/* Sixteen products of all four channels and two pixels. Loads stand between multiplies: each takes its unit for two
 * cycles. */
    .macro block
    vldrb.8 q0, [r9], #16
    vldrb.8 q2, [r5], #16
    vmladava.s8 r0, q0, q2
    vldrb.8 q1, [r11], #16
    vmladava.s8 r8, q1, q2
    four_products_left
    .endm

/* Those of channels b to d. */
    .macro four_products_left
    vldrb.8 q3, [r5], #16
    vmladava.s8 r2, q0, q3
    vmladava.s8 r10, q1, q3
    vldrb.8 q2, [r5], #16
    vmladava.s8 r4, q0, q2
    vmladava.s8 r12, q1, q2
    vldrb.8 q3, [r5], #16
    vmladava.s8 r6, q0, q3
    vmladava.s8 lr, q1, q3
    .endm

/* Two blocks: the second block's loads stand between the first one's multiplies too. */
    .macro two_blocks
    vldrb.8 q0, [r9], #16
    vldrb.8 q2, [r5], #16
    vmladava.s8 r0, q0, q2
    vldrb.8 q1, [r11], #16
    vmladava.s8 r8, q1, q2
    vldrb.8 q3, [r5], #16
    vmladava.s8 r2, q0, q3
    vldrb.8 q4, [r9], #16
    vmladava.s8 r10, q1, q3
    vldrb.8 q2, [r5], #16
    vmladava.s8 r4, q0, q2
    vldrb.8 q5, [r11], #16
    vmladava.s8 r12, q1, q2
    vldrb.8 q3, [r5], #16
    vmladava.s8 r6, q0, q3
    vldrb.8 q2, [r5], #16
    vmladava.s8 lr, q1, q3
    vldrb.8 q0, [r5], #16
    vmladava.s8 r0, q4, q2
    vldrb.8 q1, [r5], #16
    vmladava.s8 r8, q5, q2
    vldrb.8 q3, [r5], #16
    vmladava.s8 r2, q4, q0
    subs    r7, r7, #1
    vmladava.s8 r10, q5, q0
    vmladava.s8 r4, q4, q1
    vmladava.s8 r12, q5, q1
    vmladava.s8 r6, q4, q3
    vmladava.s8 lr, q5, q3
    .endm

/* The first products of the first four channels. Of fewer than sixteen x is zero behind them. */
    .macro first_block
    ldrd    r0, r2, [r5], #8
    ldrd    r9, r11, [sp, #X]
    ldrd    r4, r6, [r5], #8
    mov r8, r0
    mov r10, r2
    mov r12, r4
    mov lr, r6
    vpst
    vldrbt.8 q0, [r9]
    vpst
    vldrbt.8 q1, [r11]
    ldrd    r9, r11, [sp, #NEXT]
    vldrb.8 q2, [r5], #16
    vmladava.s8 r0, q0, q2
    vmladava.s8 r8, q1, q2
    four_products_left
    ldr     r7, [sp, #LOOPS]
    lsrs    r7, r7, #1
    .endm

/* The same of four more channels, beside what is left to do for those before. Ties go away from zero: negative values
 * are decremented before the shift. */
    .macro next_block
    vldrw.32 q4, [r5], #16
    vmov d14, r8, r10
    vqrdmulh.s32 q6, q6, q4
    ldrd    r0, r2, [r5, #16]
    vmov d15, r12, lr
    vldrw.32 q5, [r5], #32
    vqrdmulh.s32 q7, q7, q4
    vshr.s32 q4, q6, #31
    ldrd    r9, r11, [sp, #X]
    vadd.i32 q6, q6, q4
    ldrd    r4, r6, [r5, #-8]
    vshr.s32 q4, q7, #31
    mov r8, r0
    mov r10, r2
    vrshl.s32 q6, q6, q5
    vpst
    vldrbt.8 q0, [r9]
    vadd.i32 q7, q7, q4
    vldrb.8 q2, [r5], #16
    vmladava.s8 r0, q0, q2
    vrshl.s32 q7, q7, q5
    vpst
    vldrbt.8 q1, [r11]
    mov r12, r4
    mov lr, r6
    ldr     r7, [sp, #OFFSET]
    vmladava.s8 r8, q1, q2
    vadd.i32 q6, q6, r7
    vldrb.8 q3, [r5], #16
    vmladava.s8 r2, q0, q3
    vadd.i32 q7, q7, r7
    vldrw.32 q4, [sp, #LOW]
    vmladava.s8 r10, q1, q3
    ldr     r7, [sp, #LOOPS]
    vmax.s32 q6, q6, q4
    vldrb.8 q2, [r5], #16
    vmladava.s8 r4, q0, q2
    vmax.s32 q7, q7, q4
    vldrw.32 q5, [sp, #HIGH]
    vmladava.s8 r12, q1, q2
    vmin.s32 q6, q6, q5
    vldrb.8 q3, [r5], #16
    vmladava.s8 r6, q0, q3
    vmin.s32 q7, q7, q5
    ldrd    r9, r11, [sp, #NEXT]
    vmladava.s8 lr, q1, q3
    vstrb.32 q6, [r1], #4
    lsrs    r7, r7, #1
    vstrb.32 q7, [r3], #4
    .endm

/* The last sums to outputs, where r7 channels are left behind the four. */
    .macro finish
    vldrw.32 q4, [r5], #16
    vmov d14, r8, r10
    vmov d15, r12, lr
    vqrdmulh.s32 q6, q6, q4
    vldrw.32 q5, [r5], #16
    vqrdmulh.s32 q7, q7, q4
    vshr.s32 q4, q6, #31
    vadd.i32 q6, q6, q4
    vshr.s32 q4, q7, #31
    vadd.i32 q7, q7, q4
    adds    r7, r7, #4
    vctp.32 r7
    ldr     r7, [sp, #OFFSET]
    vrshl.s32 q6, q6, q5
    vldrw.32 q4, [sp, #LOW]
    vrshl.s32 q7, q7, q5
    vldrw.32 q5, [sp, #HIGH]
    vadd.i32 q6, q6, r7
    vadd.i32 q7, q7, r7
    vmax.s32 q6, q6, q4
    vmax.s32 q7, q7, q4
    vmin.s32 q6, q6, q5
    vmin.s32 q7, q7, q5
    vpst
    vstrbt.32 q6, [r1]
    vpst
    vstrbt.32 q7, [r3]
    .endm

/* From T, r0: the stream in r5, in r6 how many lanes of the first x are read, in r4 the first products, blocks behind
 * them in r7, channels in r8 and the output offset in r12. */
    .macro load_layer
    ldr     r5, [r0, #TILE_MVE_STREAM]
    ldrd    r4, r7, [r0, #TILE_MVE_FIRST]
    ldr     r6, [r0, #TILE_MVE_LANES]
    ldrd    r8, r12, [r0, #TILE_MVE_CHANNELS]
    .endm

/* Of one pixel: q0 x, q1 sums, q2, q3 weights and factors, q4, q5 low and high; r1 x, r9 x behind the first products,
 * r3 output, r8 channels left, r10 lanes, r11 blocks. */
    function cortado_conv_tile1_s8__mve
    push    {r4-r11, lr}
    vpush   {d8-d11}
    mov     r3, r2
    load_layer
    add     r9, r1, r4
    mov     r10, r6
    mov     r11, r7
    ldrd    r2, r4, [r0, #TILE_MVE_LOW]
    vdup.32 q4, r2
    vdup.32 q5, r4
    /* One turn: four channels. */
.Lone_channels:
    vctp.8  r10
    ldrd    r0, r2, [r5], #8
    vpst
    vldrbt.8 q0, [r1]
    ldrd    r4, r6, [r5], #8
    vldrb.8 q2, [r5], #16
    vmladava.s8 r0, q0, q2
    mov     r7, r9
    vldrb.8 q3, [r5], #16
    vmladava.s8 r2, q0, q3
    vldrb.8 q2, [r5], #16
    vmladava.s8 r4, q0, q2
    vldrb.8 q3, [r5], #16
    vmladava.s8 r6, q0, q3
    wls     lr, r11, .Lone_made
    /* One turn: sixteen products of each channel. */
.Lone_block:
    vldrb.8 q0, [r7], #16
    vldrb.8 q2, [r5], #16
    vmladava.s8 r0, q0, q2
    vldrb.8 q3, [r5], #16
    vmladava.s8 r2, q0, q3
    vldrb.8 q2, [r5], #16
    vmladava.s8 r4, q0, q2
    vldrb.8 q3, [r5], #16
    vmladava.s8 r6, q0, q3
    le      lr, .Lone_block
.Lone_made:
    vldrw.32 q2, [r5], #16
    vmov    d2, r0, r2
    vmov    d3, r4, r6
    vqrdmulh.s32 q1, q1, q2
    vldrw.32 q3, [r5], #16
    vctp.32 r8
    vshr.s32 q2, q1, #31
    subs    r8, r8, #4
    vadd.i32 q1, q1, q2
    vrshl.s32 q1, q1, q3
    vadd.i32 q1, q1, r12
    vmax.s32 q1, q1, q4
    vmin.s32 q1, q1, q5
    vpst
    vstrbt.32 q1, [r3], #4
    bgt     .Lone_channels
    mov     r0, r5
    vpop    {d8-d11}
    pop     {r4-r11, pc}
    .size   cortado_conv_tile1_s8__mve, . - cortado_conv_tile1_s8__mve

    function cortado_conv_tile2_s8__mve
    push    {r4-r11, lr}
    vpush   {d8-d15}
    ldr     r9, [sp, #36 + 64]
    sub     sp, sp, #FRAME
    mov     r10, r3
    load_layer
    vctp.8  r6
    strd    r7, r12, [sp, #LOOPS]
    strd    r1, r2, [sp, #X]
    add     r1, r1, r4
    add     r2, r2, r4
    strd    r1, r2, [sp, #NEXT]
    mov     r1, r10
    mov     r3, r9
    add     r8, r8, r10
    subs    r8, r8, #4
    str     r8, [sp, #LAST]
    ldrd    r4, r6, [r0, #TILE_MVE_LOW]
    vdup.32 q0, r4
    vdup.32 q1, r6
    vstrw.32 q0, [sp, #LOW]
    vstrw.32 q1, [sp, #HIGH]
    first_block
    b       .Ltwo_first_made
    /* One turn: four channels. */
.Ltwo_channels:
    next_block
.Ltwo_first_made:
    bcc     .Ltwo_even
    block
.Ltwo_even:
    cbz     r7, .Ltwo_made
    /* One turn: two blocks of sixteen products of each channel. */
.Ltwo_blocks:
    two_blocks
    bne     .Ltwo_blocks
.Ltwo_made:
    ldr     r7, [sp, #LAST]
    vmov    d12, r0, r2
    vmov    d13, r4, r6
    subs    r7, r7, r1
    bgt     .Ltwo_channels
    finish
    mov     r0, r5
    add     sp, sp, #FRAME
    vpop    {d8-d15}
    pop     {r4-r11, pc}
    .size   cortado_conv_tile2_s8__mve, . - cortado_conv_tile2_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
