/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of convolution and linear layers with 4-bit weights and vector instructions (MVE): all output
 * channels of one pixel or two, four channels at a time. Internal. The streams are described in conv_narrow_s8__mve.S
 * and conv_runs_s8__mve.S.
 */
#ifndef CONV_NARROW_S8__MVE_H
#define CONV_NARROW_S8__MVE_H

#include "conv_tile_s8__mve.h"

#if !defined(__ASSEMBLER__)
#include "cortado_narrow.h"

void cortado_conv_narrow1_s8__mve(const cortado_conv_tile_mve_t *T, const int8_t *x, int8_t *out);
/* Two pixels behind one another, so many times; at least sixteen products. */
void cortado_conv_narrow2_s8__mve(const cortado_conv_tile_mve_t *T, const int8_t *x, int8_t *out, int32_t pairs);
/* With a factor for each run. */
void cortado_conv_runs1_s8__mve(const cortado_conv_tile_mve_t *T, const int8_t *x, int8_t *out);
void cortado_conv_runs2_s8__mve(const cortado_conv_tile_mve_t *T, const int8_t *x, int8_t *out);
#endif

/* For the assembly: one block of sixteen products of all four channels, and how sums become outputs. */
#if defined(__ASSEMBLER__) && defined(__ARM_FEATURE_MVE)

/* Frame. */
#define LOOPS 0 /* how often the loop of two blocks, or runs, goes round; written with REST */
#define REST 4  /* products behind them */
#define X 8     /* x0, x1 */
#define OUT 16  /* out0, out1 */
#define TIES 24 /* 0: a negative output is the lowest there is, whichever way it is rounded */
#define OFFSET 28
#define LOW 32  /* low, high */
#define TURNS 40 /* of two pixels: of the loop of two blocks, and where the first one begins */
#define ENTRY 44
#define PAIRS 48 /* of pixels left, and T */
#define SIZE 56  /* products of a pixel, and where the outputs of this pair begin */
#define BASE 60
#define FRAME 64

/* Both bytes of weights, whose halves are channels a and b, then c and d, with the pixels in q0 and q1. \op is vmladav
 * (the first time) or vmladava. SUM of byte * x is 16 * b + a, SUM of (byte << 4) * x is 16 * a. */
    .macro weights op, pixels
    vldrb.8 q2, [r5], #16
    \op\().s8 r2, q0, q2
    vshl.i8 q3, q2, #4
    .if \pixels == 2
    \op\().s8 r10, q1, q2
    .endif
    \op\().s8 r0, q0, q3
    vldrb.8 q2, [r5], #16
    .if \pixels == 2
    \op\().s8 r8, q1, q3
    .endif
    \op\().s8 r6, q0, q2
    vshl.i8 q3, q2, #4
    .if \pixels == 2
    \op\().s8 lr, q1, q2
    .endif
    \op\().s8 r4, q0, q3
    .if \pixels == 2
    \op\().s8 r12, q1, q3
    .endif
    .endm

    .macro block op, pixels
    vldrb.8 q0, [r1], #16
    .if \pixels == 2
    vldrb.8 q1, [r3], #16
    .endif
    weights \op, \pixels
    .endm

/* A block of r7 products, sixteen at most: bytes of the pixels past the end are zeros. */
    .macro part op, pixels
    vctp.8  r7
    .if \pixels == 2
    vpstt
    vldrbt.8 q0, [r1], #16
    vldrbt.8 q1, [r3], #16
    .else
    vpst
    vldrbt.8 q0, [r1], #16
    .endif
    weights \op, \pixels
    .endm

/* The sums of channels a to d as the lanes of q0, of the second pixel q1. */
    .macro apart pixels
    sub     r2, r2, r0, asr #4
    sub     r6, r6, r4, asr #4
    vmov    d0, r0, r2
    .if \pixels == 2
    sub     r10, r10, r8, asr #4
    .endif
    vmov    d1, r4, r6
    .if \pixels == 2
    sub     lr, lr, r12, asr #4
    vmov    d2, r8, r10
    .endif
    vshr.s32 q0, q0, #4
    .if \pixels == 2
    vmov    d3, r12, lr
    vshr.s32 q1, q1, #4
    .endif
    .endm

/* Sums in q0 and q1 to outputs, and the channels left, r9, with flags. Multipliers and shifts are next in the stream.
 * Ties go away from zero: negative values are decremented before the shift. */
    .macro outputs pixels
    vldrb.8 q3, [r5], #16
    vqrdmulh.s32 q0, q0, q3
    ldr     r7, [sp, #TIES]
    .if \pixels == 2
    vqrdmulh.s32 q1, q1, q3
    .endif
    vldrb.8 q2, [r5], #16
    cbz     r7, .Lties_\@
    vshr.s32 q3, q0, #31
    vadd.i32 q0, q0, q3
    .if \pixels == 2
    vshr.s32 q3, q1, #31
    vadd.i32 q1, q1, q3
    .endif
.Lties_\@:
    vrshl.s32 q0, q0, q2
    ldrd    r1, r3, [sp, #OUT]
    .if \pixels == 2
    vrshl.s32 q1, q1, q2
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

    .macro enter
    push    {r4-r11, lr}
    vpush   {d8-d15}
    sub     sp, sp, #FRAME
    .endm

    .macro leave
    add     sp, sp, #FRAME
    vpop    {d8-d15}
    pop     {r4-r11, pc}
    .endm

#endif
#endif /* CONV_NARROW_S8__MVE_H */
