/* SPDX-License-Identifier: Apache-2.0
 *
 * All channels of one pixel of a depthwise convolution, 16-bit codes and 8-bit weights, with vector instructions:
 * depthwise_pixel_s16.h.
 *
 *   void cortado_depthwise_pixel_s16__mve(const cortado_wide_pixel_t *P, int16_t *out)
 *   void cortado_depthwise_nine_s16__mve(const cortado_wide_pixel_t *P, int16_t *out)
 *
 * Tile: 1 pixel x 8 channels. Scratch: none of its own; the taps are the kernel's.
 *
 * Products of even and odd channels are sums apart, and come together when they are codes. The stream, for each eight
 * channels; the last eight may repeat some of those before:
 *
 *   | biases of even channels 4 x 4 | of odd ones 4 x 4 | weights 8 |  for each tap
 *   | multipliers of even channels 4 x 4 | of odd ones | shifts of even channels 4 x 4, negative | of odd ones |
 *
 *   any window:  r0 taps   r1 stream   r2 their number   r3 channels left   r4 bytes from a tap's pixel to the channels
 *                r5 out   r6, r7 next tap and its pixel
 *   nine taps:   r0, r2 to r6, r8 to r10 their channels   r1 out   r7 stream   lr turns left
 *   q0, q1 codes and weights   q2, q3 products   q4, q5 sums   q6, q7 low and high
 */
#include "cortado_asm.h"
#include "depthwise_pixel_s16.h"

#if defined(__ARM_FEATURE_MVE)

    .macro add_products
    vmullb.s16 q2, q0, q1
    vmullt.s16 q3, q0, q1
    vadd.i32 q4, q4, q2
    vadd.i32 q5, q5, q3
    .endm

/* One tap of nine: its channels from \tap on. */
    .macro add_tap tap, number
    vldrh.u16 q0, [\tap], #16
    vldrb.s16 q1, [r7, #32 + 8 * \number]
    add_products
    .endm

/* The sums to codes in q0; multipliers and shifts from \at on, at `\first`. */
    .macro to_codes at, first
    vldrw.32 q0, [\at, #\first]
    vldrw.32 q1, [\at, #\first + 16]
    vqrdmulh.s32 q4, q4, q0
    vqrdmulh.s32 q5, q5, q1
    vldrw.32 q0, [\at, #\first + 32]
    vshr.s32 q2, q4, #31
    vldrw.32 q1, [\at, #\first + 48]
    vshr.s32 q3, q5, #31
    vadd.i32 q4, q4, q2
    vadd.i32 q5, q5, q3
    vrshl.s32 q4, q4, q0
    vrshl.s32 q5, q5, q1
    vqmovnb.s32 q0, q4
    vqmovnt.s32 q0, q5
    vmax.s16 q0, q0, q6
    vmin.s16 q0, q0, q7
    .endm

#define NINE_BYTES 168 /* of the stream, for eight channels */

    function cortado_depthwise_nine_s16__mve
    push    {r4-r10, lr}
    vpush   {d8-d15}
    ldm     r0, {r2-r7}
    vdup.16 q6, r6
    vdup.16 q7, r7
    sub     r7, r3, #NINE_BYTES
    lsrs    r5, r5, #3
    dls     lr, r5
    ldm     r2, {r0, r2-r6, r8-r10}
    /* One turn: eight channels. */
.Lnine_channels:
    vldrw.32 q4, [r7, #NINE_BYTES]!
    vldrw.32 q5, [r7, #16]
    add_tap r0, 0
    add_tap r2, 1
    add_tap r3, 2
    add_tap r4, 3
    add_tap r5, 4
    add_tap r6, 5
    add_tap r8, 6
    add_tap r9, 7
    add_tap r10, 8
    to_codes r7, 104
    vstrh.16 q0, [r1], #16
    le      lr, .Lnine_channels
    vpop    {d8-d15}
    pop     {r4-r10, pc}
    .size   cortado_depthwise_nine_s16__mve, . - cortado_depthwise_nine_s16__mve

    function cortado_depthwise_pixel_s16__mve
    push    {r4-r7, lr}
    vpush   {d8-d15}
    mov     r5, r1
    ldrd    r6, r7, [r0, #16]
    vdup.16 q6, r6
    vdup.16 q7, r7
    ldm     r0, {r0-r3}
    movs    r4, #0
    /* One turn: eight channels. */
.Lpixel_channels:
    vldrw.32 q4, [r1], #16
    vldrw.32 q5, [r1], #16
    mov     r6, r0
    dls     lr, r2
    /* One turn: one tap. */
.Lpixel_tap:
    ldr     r7, [r6], #4
    vldrb.s16 q1, [r1], #8
    add     r7, r7, r4
    vldrh.u16 q0, [r7]
    add_products
    le      lr, .Lpixel_tap
    to_codes r1, 0
    adds    r1, r1, #64
    adds    r7, r5, r4
    vstrh.16 q0, [r7]
    subs    r3, r3, #8
    beq     .Lpixel_done
    adds    r4, r4, #16
    cmp     r3, #8
    bge     .Lpixel_channels
    /* The last eight channels overlap those before. */
    rsb     r7, r3, #8
    sub     r4, r4, r7, lsl #1
    movs    r3, #8
    b       .Lpixel_channels
.Lpixel_done:
    vpop    {d8-d15}
    pop     {r4-r7, pc}
    .size   cortado_depthwise_pixel_s16__mve, . - cortado_depthwise_pixel_s16__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
