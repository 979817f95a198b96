/* SPDX-License-Identifier: Apache-2.0
 *
 * All output channels of one pixel or two, 16-bit codes and 8-bit weights, with vector instructions:
 * conv_tile_s16__mve.h.
 *
 *   const int8_t *cortado_conv_tile1_s16__mve(const cortado_wide_tile_mve_t *T, const int16_t *x, int16_t *out)
 *   const int8_t *cortado_conv_tile2_s16__mve(const cortado_wide_tile_mve_t *T, const int16_t *x0, const int16_t *x1,
 *                                             int16_t *out0, int16_t *out1)
 *
 * Tile: 1 or 2 pixels x 4 channels. Scratch: none.
 *
 * Weights become halfwords as they are loaded. Sums fit 32 bits.
 *
 * The stream, for each four channels a, b, c, d; channels that make a four whole are zeros, and so are weights behind
 * the last product:
 *
 *   | biases 4 x 4 | a 8 | b 8 | c 8 | d 8 |  ...: eight products of each channel in turn
 *   | multipliers 4 x 4 | shifts 4 x 4, negative: to the right |
 *
 * VMLADAVA sums into an even core register:
 *
 *   r0, r2, r4, r6 channels a to d of the first pixel   r8, r10, r12, lr of the second
 *   r1, r3 x of the first and second pixel, later their outputs   r5 stream   r7 turns left, or the rest
 *   r9 channels left   r11 sp   q0, q1, q4, q5 x   q2, q3 weights   q6, q7 low and high
 */
#include "conv_tile_s16__mve.h"
#include "cortado_asm.h"

#if defined(__ARM_FEATURE_MVE)

/* Frame. */
#define X 0 /* x0, x1 */
#define TURNS 8 /* of sixteen products; read with X */
#define REST 12 /* products after them; written with TURNS */
#define OUT 16 /* out0, out1 */
#define FRAME 24

/* One channel: its products with one or two pixels. */
    .macro channel weights, sum0, sum1, x0, x1, pixels
    vmladava.s16 \sum0, \x0, \weights
    .if \pixels == 2
    vmladava.s16 \sum1, \x1, \weights
    .endif
    .endm

/* Eight products of all four channels with x that is there already. */
    .macro weighted x0, x1, pixels
    vldrb.s16 q2, [r5], #8
    channel q2, r0, r8, \x0, \x1, \pixels
    vldrb.s16 q3, [r5], #8
    channel q3, r2, r10, \x0, \x1, \pixels
    vldrb.s16 q2, [r5], #8
    channel q2, r4, r12, \x0, \x1, \pixels
    vldrb.s16 q3, [r5], #8
    channel q3, r6, lr, \x0, \x1, \pixels
    .endm

    .macro block x0, x1, pixels
    vldrh.u16 \x0, [r1], #16
    .if \pixels == 2
    vldrh.u16 \x1, [r3], #16
    .endif
    weighted \x0, \x1, \pixels
    .endm

/* Fewer than eight, r7: the codes past the end are zeros. */
    .macro part pixels
    vctp.16 r7
    .if \pixels == 2
    vpstt
    vldrht.u16 q0, [r1]
    vldrht.u16 q1, [r3]
    .else
    vpst
    vldrht.u16 q0, [r1]
    .endif
    weighted q0, q1, \pixels
    .endm

/* The sums to outputs, and the channels left, with flags; all four channels of a pixel are a vector. Ties go away from
 * zero: negative values are decremented before the shift. */
    .macro finish pixels
    vldrw.32 q3, [r5], #16
    vmov    d0, r0, r2
    vmov    d1, r4, r6
    .if \pixels == 2
    vmov    d2, r8, r10
    vmov    d3, r12, lr
    .endif
    vqrdmulh.s32 q0, q0, q3
    vldrw.32 q4, [r5], #16
    .if \pixels == 2
    vqrdmulh.s32 q1, q1, q3
    .endif
    vshr.s32 q2, q0, #31
    ldrd    r1, r3, [sp, #OUT]
    vadd.i32 q0, q0, q2
    .if \pixels == 2
    vshr.s32 q3, q1, #31
    vadd.i32 q1, q1, q3
    .endif
    vrshl.s32 q0, q0, q4
    .if \pixels == 2
    vrshl.s32 q1, q1, q4
    .endif
    vctp.32 r9
    vmax.s32 q0, q0, q6
    .if \pixels == 2
    vmax.s32 q1, q1, q6
    .endif
    subs    r9, r9, #4
    vmin.s32 q0, q0, q7
    .if \pixels == 2
    vmin.s32 q1, q1, q7
    vpstt
    vstrht.32 q0, [r1], #8
    vstrht.32 q1, [r3], #8
    .else
    vpst
    vstrht.32 q0, [r1], #8
    .endif
    strd    r1, r3, [sp, #OUT]
    .endm

    .macro enter
    push    {r4-r11, lr}
    vpush   {d8-d15}
    sub     sp, sp, #FRAME
    .endm

/* From T, r0: the stream in r5, channels in r9, low and high in q6 and q7; fills the frame. */
    .macro load_layer
    ldm     r0, {r5, r7-r11}
    strd    r7, r8, [sp, #TURNS]
    vdup.32 q6, r10
    vdup.32 q7, r11
    mov     r11, sp
    .endm

/* The whole of both functions but their beginning. */
    .macro all_channels pixels
    /* One turn: four channels; every sum starts at its bias. */
.Lchannels_\@:
    ldm     r5!, {r0, r2, r4, r6}
    ldm     r11, {r1, r3, r7}
    .if \pixels == 2
    mov     r8, r0
    mov     r10, r2
    mov     r12, r4
    mov     lr, r6
    .endif
    cbz     r7, .Lturns_done_\@
    /* One turn: sixteen products of each channel. */
.Lturns_\@:
    block   q0, q1, \pixels
    subs    r7, r7, #1
    block   q4, q5, \pixels
    bne     .Lturns_\@
.Lturns_done_\@:
    ldr     r7, [sp, #REST]
    cbnz    r7, .Lrest_\@
    /* Here also from below, after the rest. */
.Lfinish_\@:
    finish  \pixels
    bgt     .Lchannels_\@
    mov     r0, r5
    add     sp, sp, #FRAME
    vpop    {d8-d15}
    pop     {r4-r11, pc}
    /* Up to fifteen products: eight, and what is behind them. */
.Lrest_\@:
    cmp     r7, #8
    blt     .Lpart_\@
    block   q0, q1, \pixels
    subs    r7, r7, #8
    beq     .Lfinish_\@
.Lpart_\@:
    part    \pixels
    b       .Lfinish_\@
    .endm

    function cortado_conv_tile1_s16__mve
    enter
    str     r1, [sp, #X]
    str     r2, [sp, #OUT]
    load_layer
    all_channels 1
    .size   cortado_conv_tile1_s16__mve, . - cortado_conv_tile1_s16__mve

    function cortado_conv_tile2_s16__mve
    ldr     r12, [sp]
    enter
    strd    r1, r2, [sp, #X]
    strd    r3, r12, [sp, #OUT]
    load_layer
    all_channels 2
    .size   cortado_conv_tile2_s16__mve, . - cortado_conv_tile2_s16__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
