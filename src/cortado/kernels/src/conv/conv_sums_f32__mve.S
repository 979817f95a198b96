/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs in float32 for 16 channels of a pixel, for 8 of one and for 8 of two, with vector instructions:
 * conv_sums_f32__mve.h.
 *
 *   int32_t cortado_conv_outputs16_f32__mve(const cortado_tile_f32_t *T)
 *   int32_t cortado_conv_outputs8_f32__mve(const cortado_tile_f32_t *T)
 *   int32_t cortado_conv_outputs8x2_f32__mve(const cortado_tile_f32_t *T)
 *
 * Tile: 1 pixel x 16 or 8 channels, 2 pixels x 8 channels. Scratch: none.
 *
 * Where there are denormal numbers, nothing is stored and the result isn't 0: conv_outputs_f32__mve.h.
 *
 * Four channels are a vector, and x is in a core register. A product and a sum are two instructions: a fused one would
 * round once. Loads stand between arithmetic, the next weights while these are used; nothing is loaded behind the last
 * ones.
 *
 *   r0 T   r1 weights   r2, r3 where x of the pixels is   r4 products   r5 step, then x   r7 x of the second pixel
 *   q0-q3 weights, then their products   q4-q7 sums
 */
#include "conv_sums_f32__mve.h"
#include "conv_outputs_f32__mve.h"

#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)

/* Sums begin with the biases, which lie where weights of a product before the first would. */
    .macro enter
    begin
    vldrw.32 q4, [r1]
    vldrw.32 q5, [r1, #16]
    .endm

/* The products of one x with 16 weights, of which the first four are multiplied already. */
    .macro sixteen more
    vldrw.32 q1, [r1, #-48]
    vadd.f32 q4, q4, q0
    vldrw.32 q2, [r1, #-32]
    vmul.f32 q1, q1, r5
    vldrw.32 q3, [r1, #-16]
    vmul.f32 q2, q2, r5
    .if \more
    vldrw.32 q0, [r1], #64
    .endif
    vmul.f32 q3, q3, r5
    .if \more
    ldr     r5, [r2], #4
    .endif
    vadd.f32 q5, q5, q1
    vadd.f32 q6, q6, q2
    .if \more
    vmul.f32 q0, q0, r5
    .endif
    vadd.f32 q7, q7, q3
    .endm

    function cortado_conv_outputs16_f32__mve
    enter
    vldrw.32 q6, [r1, #32]
    vldrw.32 q7, [r1, #48]
    adds    r1, r1, #64
    ldr     r5, [r2], #4
    vldrw.32 q0, [r1], #64
    subs    lr, r4, #1
    vmul.f32 q0, q0, r5
    wls     lr, lr, .Llast_outputs16
/* A product that another follows. */
.Lagain_outputs16:
    sixteen 1
    le      lr, .Lagain_outputs16
.Llast_outputs16:
    sixteen 0
    outputs
    output  q4, r1
    four_more
    output  q5, r1
    four_more
    output  q6, r1
    four_more
    output  q7, r1
    leave

    function cortado_conv_outputs8_f32__mve
    enter
    adds    r1, r1, #32
    dls     lr, r4
/* A product. */
.Lagain_outputs8:
    ldr     r5, [r2], #4
    vldrw.32 q0, [r1], #32
    vmul.f32 q0, q0, r5
    vldrw.32 q1, [r1, #-16]
    vmul.f32 q1, q1, r5
    vadd.f32 q4, q4, q0
    vadd.f32 q5, q5, q1
    le      lr, .Lagain_outputs8
    outputs
    output  q4, r1
    four_more
    output  q5, r1
    leave

/* The products of 8 weights with x of two pixels, of which the first four are multiplied by the first x already, to q2.
 * The weights of the next x are \step bytes behind these. */
    .macro sixteen_of_two step, more
    vldrw.32 q1, [r1, #16 - \step]
    vmul.f32 q3, q0, r7
    vadd.f32 q4, q4, q2
    vmul.f32 q2, q1, r5
    .if \more
    ldr     r5, [r2], #4
    .endif
    vadd.f32 q6, q6, q3
    .if \more
    vldrw.32 q0, [r1], #\step
    .endif
    vmul.f32 q3, q1, r7
    vadd.f32 q5, q5, q2
    .if \more
    ldr     r7, [r3], #4
    vmul.f32 q2, q0, r5
    .endif
    vadd.f32 q7, q7, q3
    .endm

    .macro all_of_two step
    vldrw.32 q0, [r1], #\step
    subs    lr, r4, #1
    vmul.f32 q2, q0, r5
    wls     lr, lr, .Llast_\@
/* A product that another follows. */
.Lagain_\@:
    sixteen_of_two \step, 1
    le      lr, .Lagain_\@
.Llast_\@:
    sixteen_of_two \step, 0
    .endm

    function cortado_conv_outputs8x2_f32__mve
    enter
    vmov    q6, q4
    vmov    q7, q5
    cmp     r5, #64
    add     r1, r1, r5
    ldr     r5, [r2], #4
    ldr     r7, [r3], #4
    bne     .Lnarrow_outputs8x2
    all_of_two 64
    b       .Lstore_outputs8x2
.Lnarrow_outputs8x2:
    all_of_two 32
.Lstore_outputs8x2:
    outputs
    output  q4, r1
    output  q6, r2
    four_more
    output  q5, r1
    output  q7, r2
    leave

#endif
