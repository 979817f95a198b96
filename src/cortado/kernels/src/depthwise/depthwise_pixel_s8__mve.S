/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise pixels with vector instructions: depthwise_pixel_s8.h. All channels of one, sixteen at a time; or, of fewer
 * than sixteen channels, a run of pixels, as many whole ones as fit sixteen at a time.
 *
 *   void cortado_depthwise_pixel_s8__mve(const cortado_depthwise_pixel_t *P, int8_t *out)
 *   void cortado_depthwise_few_pixels_s8__mve(const cortado_depthwise_pixel_t *P, int8_t *out, int32_t bytes)
 *
 * Tile: 1 pixel x 16 channels, or 16 / channels whole pixels. Scratch: none of its own; the taps are the kernel's.
 *
 * Products of bytes are halfwords, those of the even channels and those of the odd ones apart. Two of them fit a
 * halfword (no weight is -128), so taps are added in pairs before they are widened. So the four vectors of sums hold
 *
 *   q4 channels 0, 4, 8, 12    q5 channels 2, 6, 10, 14    q6 channels 1, 5, 9, 13    q7 channels 3, 7, 11, 15
 *
 * and narrowing them the same way puts the channels back in order. The stream, for each sixteen channels, of which the
 * last may overlap those before (few: one sixteen, the channels of a pixel over and over; no shift is positive):
 *
 *   | biases 16 x 4, in the order of q4 to q7 |
 *   | weights 16, channels in order |  each tap
 *   | multipliers 4 x 4 | shifts 4 x 4 |  of q4, of q5, of q6, of q7
 *
 *   r1 stream   r2 taps   r3 out   r4, r5 two taps   r6 pairs of taps   r7 channels (few: bytes left)
 *   r8 whether a tap is left over   r9 output offset   r10 P   r11 low   r12 first channel (few: first byte of the run)
 *   q0 x, later odd products   q1 weights   q2 even products   q3 second weights or x   q4 to q7 sums
 */
#include "cortado_asm.h"
#include "depthwise_pixel_s8.h"

#if defined(__ARM_FEATURE_MVE)

/* Adds the even products in q2 and the odd ones in q0. */
    .macro widen
    vmovlb.s16 q1, q2
    vmovlt.s16 q2, q2
    vadd.i32 q4, q4, q1
    vmovlb.s16 q1, q0
    vadd.i32 q5, q5, q2
    vmovlt.s16 q0, q0
    vadd.i32 q6, q6, q1
    vadd.i32 q7, q7, q0
    .endm

/* The products of the tap at \at. */
    .macro one_tap at
    vldrb.8 q0, [\at]
    multiply
    .endm

/* The products of q0 with the next weights: even in q2, odd in q0. */
    .macro multiply
    vldrb.8 q1, [r1], #16
    vmullb.s8 q2, q0, q1
    vmullt.s8 q0, q0, q1
    .endm

/* Four sums by the next factors; ties go away from zero: negative values are decremented before a right shift. */
    .macro scale_vector sums
    vldrb.8 q0, [r1], #16
    vldrb.8 q1, [r1], #16
    vqrdmulh.s32 \sums, \sums, q0
    vand    q2, \sums, q1
    vshr.s32 q2, q2, #31
    vadd.i32 \sums, \sums, q2
    vrshl.s32 \sums, \sums, q1
    .endm

/* What P, r0, says of the layer, and out, r1, to their registers. */
    .macro load_layer
    mov     r10, r0
    mov     r3, r1
    mov     r12, #0
    ldrd    r2, r6, [r0, #PIXEL_TAPS]
    sub     r6, r6, r2
    ubfx    r8, r6, #2, #1
    lsrs    r6, r6, #3
    add     r11, r0, #PIXEL_OFFSET
    ldm     r11, {r9, r11}
    .endm

/* Every sum starts at its bias. */
    .macro load_biases
    vldrb.8 q4, [r1], #16
    vldrb.8 q5, [r1], #16
    vldrb.8 q6, [r1], #16
    vldrb.8 q7, [r1], #16
    .endm

/* The sums to sixteen outputs in q4, and where they go in r4. */
    .macro finish
    scale_vector q4
    scale_vector q5
    scale_vector q6
    scale_vector q7
    vqmovnb.s32 q4, q4
    vqmovnt.s32 q4, q5
    vqmovnb.s32 q6, q6
    vqmovnt.s32 q6, q7
    ldr     lr, [r10, #PIXEL_HIGH]
    vdup.16 q1, r9
    vdup.8  q2, r11
    vdup.8  q3, lr
    vqadd.s16 q4, q4, q1
    vqadd.s16 q6, q6, q1
    vqmovnb.s16 q4, q4
    vqmovnt.s16 q4, q6
    vmax.s8 q4, q4, q2
    vmin.s8 q4, q4, q3
    add     r4, r3, r12
    .endm

    function cortado_depthwise_pixel_s8__mve
    push    {r4-r11, lr}
    vpush   {d8-d15}
    load_layer
    ldr     r1, [r0, #PIXEL_STREAM]
    ldr     r7, [r0, #PIXEL_CHANNELS]
    /* One turn: sixteen channels. */
.Lpixel_channels:
    ldr     r2, [r10, #PIXEL_TAPS]
    load_biases
    wls     lr, r6, .Lpixel_pairs_done
    /* One turn: two taps. The second is loaded twice: there is no register left for both of its products. */
.Lpixel_two_taps:
    ldrd    r4, r5, [r2], #8
    add     r4, r4, r12
    add     r5, r5, r12
    one_tap r4
    vldrb.8 q1, [r5]
    vldrb.8 q3, [r1], #16
    vmullb.s8 q1, q1, q3
    vadd.i16 q2, q2, q1
    vldrb.8 q1, [r5]
    vmullt.s8 q1, q1, q3
    vadd.i16 q0, q0, q1
    widen
    le      lr, .Lpixel_two_taps
.Lpixel_pairs_done:
    cmp     r8, #0
    beq     .Lpixel_finish
    ldr     r4, [r2]
    add     r4, r4, r12
    one_tap r4
    widen
.Lpixel_finish:
    finish
    vstrb.8 q4, [r4]
    /* The next sixteen channels, or the last sixteen. */
    add     r12, r12, #16
    subs    r4, r7, r12
    beq     .Lpixel_return
    cmp     r4, #16
    it      lt
    sublt   r12, r7, #16
    b       .Lpixel_channels
.Lpixel_return:
    vpop    {d8-d15}
    pop     {r4-r11, pc}
    .size   cortado_depthwise_pixel_s8__mve, . - cortado_depthwise_pixel_s8__mve

    function cortado_depthwise_few_pixels_s8__mve
    push    {r4-r11, lr}
    vpush   {d8-d15}
    mov     r7, r2
    load_layer
    /* One turn: as many whole pixels as fit sixteen bytes; the lanes past the run's end are neither loaded nor
     * stored. */
.Lfew_pixels:
    vctp.8  r7
    ldrd    r1, r2, [r10, #PIXEL_STREAM]
    load_biases
    wls     lr, r6, .Lfew_pairs_done
    /* One turn: two taps. The second weights are loaded twice: there is no register left for both products. */
.Lfew_two_taps:
    ldrd    r4, r5, [r2], #8
    add     r4, r4, r12
    add     r5, r5, r12
    vpstt
    vldrbt.8 q0, [r4]
    vldrbt.8 q3, [r5]
    multiply
    vldrb.8 q1, [r1]
    vmullb.s8 q1, q3, q1
    vadd.i16 q2, q2, q1
    vldrb.8 q1, [r1], #16
    vmullt.s8 q1, q3, q1
    vadd.i16 q0, q0, q1
    widen
    le      lr, .Lfew_two_taps
.Lfew_pairs_done:
    cmp     r8, #0
    beq     .Lfew_finish
    ldr     r4, [r2]
    add     r4, r4, r12
    vpst
    vldrbt.8 q0, [r4]
    multiply
    widen
.Lfew_finish:
    finish
    vpst
    vstrbt.8 q4, [r4]
    /* The next pixels. Where they don't fill sixteen bytes, what was stored of them is stored again. */
    ldr     r4, [r10, #PIXEL_CHANNELS]
    add     r12, r12, r4
    subs    r7, r7, r4
    bgt     .Lfew_pixels
    vpop    {d8-d15}
    pop     {r4-r11, pc}
    .size   cortado_depthwise_few_pixels_s8__mve, . - cortado_depthwise_few_pixels_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
