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
 *   | a 16 | b 16 | c 16 | d 16 |  `blocks` times: sixteen products of each channel
 *   | a r | b r | c r | d r |      the `rest`, r < 16 products of each
 *   | biases 4 x 4 | multipliers 4 x 4 | shifts 4 x 4, negative: to the right |
 *
 * VMLADAVA sums into an even core register:
 *
 *   r0, r2, r4, r6 channels a to d of the first pixel   r8, r10, r12, lr of the second
 *   r1, r3 x of the first and second pixel, later their outputs   r5 stream   r7 turns left, or the rest
 *   r9 channels left   r11 output offset   q0, q1, q4, q5 x   q2, q3 weights   q6, q7 low and high
 */
#include "conv_tile_s8__mve.h"
#include "cortado_asm.h"

#if defined(__ARM_FEATURE_MVE)

/* Frame. */
#define LOOPS 0 /* how often the loop of two blocks runs, twice, and one more if a block comes before it; negative:
                   there is no block at all */
#define REST 4  /* products after the blocks; written with LOOPS */
#define X 8     /* x0, x1 */
#define OUT 16  /* out0, out1 */
#define TIES 24 /* 0: a negative output is the lowest there is, whichever way it is rounded */
#define FRAME 32

/* One channel: its products with one or two pixels. \op is vmladav (the first time) or vmladava. */
    .macro channel op, weights, sum0, sum1, pixels
    \op\().s8 \sum0, q0, \weights
    .if \pixels == 2
    \op\().s8 \sum1, q1, \weights
    .endif
    .endm

/* Sixteen products of all four channels. Loads stand between multiplies: each takes its unit for two cycles. */
    .macro block op, pixels
    vldrb.8 q0, [r1], #16
    vldrb.8 q2, [r5], #16
    \op\().s8 r0, q0, q2
    .if \pixels == 2
    vldrb.8 q1, [r3], #16
    \op\().s8 r8, q1, q2
    .endif
    vldrb.8 q3, [r5], #16
    channel \op, q3, r2, r10, \pixels
    vldrb.8 q2, [r5], #16
    channel \op, q2, r4, r12, \pixels
    vldrb.8 q3, [r5], #16
    channel \op, q3, r6, lr, \pixels
    .endm

/* Two blocks of two pixels: the second block's loads stand between the first one's multiplies too. */
    .macro two_blocks
    vldrb.8 q0, [r1], #16
    vldrb.8 q2, [r5], #16
    vmladava.s8 r0, q0, q2
    vldrb.8 q1, [r3], #16
    vmladava.s8 r8, q1, q2
    vldrb.8 q3, [r5], #16
    vmladava.s8 r2, q0, q3
    vldrb.8 q4, [r1], #16
    vmladava.s8 r10, q1, q3
    vldrb.8 q2, [r5], #16
    vmladava.s8 r4, q0, q2
    vldrb.8 q5, [r3], #16
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

/* Fewer than sixteen, r7: the pixels' bytes past the end are zeros, so the weights' don't matter. */
    .macro rest pixels
    vctp.8  r7
    .if \pixels == 2
    vpstt
    vldrbt.8 q0, [r1]
    vldrbt.8 q1, [r3]
    .else
    vpst
    vldrbt.8 q0, [r1]
    .endif
    vldrb.8 q2, [r5]
    add     r5, r5, r7
    channel vmladava, q2, r0, r8, \pixels
    vldrb.8 q3, [r5]
    add     r5, r5, r7
    channel vmladava, q3, r2, r10, \pixels
    vldrb.8 q2, [r5]
    add     r5, r5, r7
    channel vmladava, q2, r4, r12, \pixels
    vldrb.8 q3, [r5]
    add     r5, r5, r7
    channel vmladava, q3, r6, lr, \pixels
    .endm

/* No sums: for layers of fewer than sixteen products. */
    .macro zero_sums pixels
    mov     r0, #0
    mov     r2, #0
    mov     r4, #0
    mov     r6, #0
    .if \pixels == 2
    mov     r8, #0
    mov     r10, #0
    mov     r12, #0
    mov     lr, #0
    .endif
    .endm

/* The sums to outputs, and the channels left, with flags; all four channels of a pixel are a vector. Ties go away from
 * zero: negative values are decremented before the shift. */
    .macro finish pixels
    vldrb.8 q2, [r5], #16
    vmov    d0, r0, r2
    vmov    d1, r4, r6
    vldrb.8 q3, [r5], #16
    .if \pixels == 2
    vmov    d2, r8, r10
    .endif
    vadd.i32 q0, q0, q2
    .if \pixels == 2
    vmov    d3, r12, lr
    .endif
    vqrdmulh.s32 q0, q0, q3
    ldr     r7, [sp, #TIES]
    .if \pixels == 2
    vadd.i32 q1, q1, q2
    .endif
    vldrb.8 q4, [r5], #16
    .if \pixels == 2
    vqrdmulh.s32 q1, q1, q3
    .endif
    cbz     r7, .Lties_\@
    vshr.s32 q2, q0, #31
    vadd.i32 q0, q0, q2
    .if \pixels == 2
    vshr.s32 q3, q1, #31
    vadd.i32 q1, q1, q3
    .endif
.Lties_\@:
    vrshl.s32 q0, q0, q4
    ldrd    r1, r3, [sp, #OUT]
    .if \pixels == 2
    vrshl.s32 q1, q1, q4
    .endif
    vctp.32 r9
    vadd.i32 q0, q0, r11
    subs    r9, r9, #4
    .if \pixels == 2
    vadd.i32 q1, q1, r11
    .endif
    vmax.s32 q0, q0, q6
    .if \pixels == 2
    vmax.s32 q1, q1, q6
    .endif
    vmin.s32 q0, q0, q7
    .if \pixels == 2
    vmin.s32 q1, q1, q7
    vpstt
    vstrbt.32 q0, [r1], #4
    vstrbt.32 q1, [r3], #4
    .else
    vpst
    vstrbt.32 q0, [r1], #4
    .endif
    strd    r1, r3, [sp, #OUT]
    .endm

/* Saves what the caller wants back. */
    .macro enter
    push    {r4-r11, lr}
    vpush   {d8-d15}
    sub     sp, sp, #FRAME
    .endm

/* From T, r0: the stream in r5, channels in r9, offset in r11, low and high in q6 and q7; fills the frame. */
    .macro load_layer
    ldrd    r5, r7, [r0, #TILE_MVE_STREAM]
    ldr     r1, [r0, #TILE_MVE_REST]
    subs    r7, r7, #1
    strd    r7, r1, [sp, #LOOPS]
    ldrd    r9, r11, [r0, #TILE_MVE_CHANNELS]
    ldrd    r1, r3, [r0, #TILE_MVE_LOW]
    sub     r2, r1, r11
    str     r2, [sp, #TIES]
    vdup.32 q6, r1
    vdup.32 q7, r3
    .endm

/* The whole of both functions but their beginning. */
    .macro all_channels pixels
    /* One turn: four channels. */
.Lchannels_\@:
    ldrd    r1, r3, [sp, #X]
    ldr     r7, [sp, #LOOPS]
    asrs    r7, r7, #1
    bmi     .Lno_block_\@
    block   vmladav, \pixels
    bcc     .Leven_\@
    block   vmladava, \pixels
.Leven_\@:
    cbz     r7, .Lblocks_done_\@
    /* One turn: two blocks of sixteen products of each channel. */
.Lblocks_\@:
    .if \pixels == 2
    two_blocks
    .else
    block   vmladava, \pixels
    block   vmladava, \pixels
    subs    r7, r7, #1
    .endif
    bne     .Lblocks_\@
.Lblocks_done_\@:
    ldr     r7, [sp, #REST]
    cbz     r7, .Lfinish_\@
    /* Here also from below, where there is no block. */
.Lrest_\@:
    rest    \pixels
.Lfinish_\@:
    finish  \pixels
    bgt     .Lchannels_\@
    mov     r0, r5
    add     sp, sp, #FRAME
    vpop    {d8-d15}
    pop     {r4-r11, pc}
.Lno_block_\@:
    ldr     r7, [sp, #REST]
    zero_sums \pixels
    b       .Lrest_\@
    .endm

    function cortado_conv_tile1_s8__mve
    enter
    str     r1, [sp, #X]
    str     r2, [sp, #OUT]
    load_layer
    all_channels 1
    .size   cortado_conv_tile1_s8__mve, . - cortado_conv_tile1_s8__mve

    function cortado_conv_tile2_s8__mve
    ldr     r12, [sp]
    enter
    strd    r1, r2, [sp, #X]
    strd    r3, r12, [sp, #OUT]
    load_layer
    all_channels 2
    .size   cortado_conv_tile2_s8__mve, . - cortado_conv_tile2_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
