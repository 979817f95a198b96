/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs in float32 of weights that are codes, for 8 channels of a pixel and for 8 of two, with vector instructions:
 * conv_codes_f32__mve.h.
 *
 *   int32_t cortado_conv_code_outputs8_f32__mve(const cortado_tile_f32_t *T)
 *   int32_t cortado_conv_code_outputs8x2_f32__mve(const cortado_tile_f32_t *T)
 *
 * Tile: 1 or 2 pixels x 8 channels. Scratch: none.
 *
 * Where there are denormal numbers, nothing is stored and the result isn't 0: conv_outputs_f32__mve.h.
 *
 * Four codes become a vector of numbers, and x is in a core register. A product and a sum are two instructions: a fused
 * one would round once. The last products of a turn are added in the next, so that loads, sums and products alternate;
 * nothing is loaded behind the last ones.
 *
 *   r0 T   r1 codes   r2, r3 where x of the pixels is   r4 products   r5, r7 x   r6 the block
 *   q0, q1 weights   q2, q3 products   q4-q7 sums
 */
#include "conv_codes_f32__mve.h"
#include "conv_outputs_f32__mve.h"

#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)

/* Codes lie behind the biases and scales of the block; sums begin with zeros. */
    .macro enter
    begin
    mov     r6, r1
    adds    r1, r1, #TILE_F32_HEADS
    vmov.i32 q4, #0
    vmov.i32 q5, #0
    .endm

/* Times a scale, plus a bias. */
    .macro finished sums, more, scale, bias
    vmul.f32 \sums, \sums, \scale
    vmul.f32 \more, \more, \scale
    vadd.f32 \sums, \sums, \bias
    vadd.f32 \more, \more, \bias
    .endm

    function cortado_conv_code_outputs8_f32__mve
    enter
    vmov.i32 q2, #0
    vmov.i32 q3, #0
    dls     lr, r4
/* A product. */
.Lagain_code_outputs8:
    vldrb.s32 q0, [r1], #8
    vadd.f32 q4, q4, q2
    ldr     r5, [r2], #4
    vcvt.f32.s32 q0, q0
    vldrb.s32 q1, [r1, #-4]
    vadd.f32 q5, q5, q3
    vmul.f32 q2, q0, r5
    vcvt.f32.s32 q1, q1
    vmul.f32 q3, q1, r5
    le      lr, .Lagain_code_outputs8
    vadd.f32 q4, q4, q2
    vadd.f32 q5, q5, q3
    vldrw.32 q0, [r6, #32]
    vldrw.32 q1, [r6, #48]
    vldrw.32 q2, [r6]
    vldrw.32 q3, [r6, #16]
    vmul.f32 q4, q4, q0
    vmul.f32 q5, q5, q1
    vadd.f32 q4, q4, q2
    vadd.f32 q5, q5, q3
    outputs
    output  q4, r1
    four_more
    output  q5, r1
    leave

    function cortado_conv_code_outputs8x2_f32__mve
    enter
    vmov.i32 q6, #0
    vmov.i32 q7, #0
    vmov.i32 q1, #0
    vmov.i32 q3, #0
    dls     lr, r4
/* A product of each pixel. */
.Lagain_code_outputs8x2:
    vldrb.s32 q0, [r1], #8
    vadd.f32 q7, q7, q1
    ldr     r5, [r2], #4
    vcvt.f32.s32 q0, q0
    vldrb.s32 q1, [r1, #-4]
    vadd.f32 q5, q5, q3
    vmul.f32 q2, q0, r5
    ldr     r7, [r3], #4
    vcvt.f32.s32 q1, q1
    vmul.f32 q0, q0, r7
    vadd.f32 q4, q4, q2
    vmul.f32 q3, q1, r5
    vadd.f32 q6, q6, q0
    vmul.f32 q1, q1, r7
    le      lr, .Lagain_code_outputs8x2
    vadd.f32 q5, q5, q3
    vadd.f32 q7, q7, q1
    vldrw.32 q0, [r6, #32]
    vldrw.32 q1, [r6]
    vldrw.32 q2, [r6, #48]
    vldrw.32 q3, [r6, #16]
    finished q4, q6, q0, q1
    finished q5, q7, q2, q3
    outputs
    output  q4, r1
    output  q6, r2
    four_more
    output  q5, r1
    output  q7, r2
    leave

#endif
