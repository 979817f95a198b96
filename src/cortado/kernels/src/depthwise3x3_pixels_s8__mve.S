/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of pixels of a 3x3 depthwise convolution with vector instructions: depthwise3x3_pixels_s8__mve.h.
 *
 *   void cortado_depthwise3x3_pixels_s8__mve(const cortado_depthwise3x3_pixels_t *N, int8_t *out, int32_t pixels)
 *
 * Tile: 1 pixel x 16 channels, the nine taps in registers. Scratch: none.
 *
 * Products of bytes are halfwords, those of the even channels and those of the odd ones apart. Two of them fit a
 * halfword (no weight is -128), so taps are added in pairs before they are widened. So the four vectors of sums hold
 *
 *   q4 channels 0, 4, 8, 12    q5 channels 2, 6, 10, 14    q6 channels 1, 5, 9, 13    q7 channels 3, 7, 11, 15
 *
 * and narrowing them the same way puts the channels back in order. The stream, for each sixteen channels, of which the
 * last may overlap those before; all shifts are to the right:
 *
 *   | biases 16 x 4, in the order of q4 to q7 |
 *   | weights 16, channels in order |  each of nine taps
 *   | multipliers 4 x 4 | shifts 4 x 4 |  of q4, of q5, of q6, of q7
 *
 *   r0 to r8 taps   r9 stream   r10 out   r11 channels left   r12 N   lr free
 *   q0 x, later odd products   q1 weights   q2 even products   q3 second weights   q4 to q7 sums
 */
#include "cortado_asm.h"
#include "depthwise3x3_pixels_s8__mve.h"

#if defined(__ARM_FEATURE_MVE)

/* Frame. */
#define OFFSET 0  /* the output offset as halfwords */
#define LOW 16    /* as bytes */
#define HIGH 32   /* as bytes */
#define PIXELS 48 /* left */
#define FRAME 56

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

/* The products of one tap: even in q2, odd in q0. */
    .macro one_tap tap
    vldrb.8 q0, [\tap], #16
    vldrb.8 q1, [r9], #16
    vmullb.s8 q2, q0, q1
    vmullt.s8 q0, q0, q1
    .endm

    /* The second tap is loaded twice: there is no register left for both of its products. */
    .macro two_taps first, second
    one_tap \first
    vldrb.8 q1, [\second]
    vldrb.8 q3, [r9], #16
    vmullb.s8 q1, q1, q3
    vadd.i16 q2, q2, q1
    vldrb.8 q1, [\second], #16
    vmullt.s8 q1, q1, q3
    vadd.i16 q0, q0, q1
    widen
    .endm

    /* Ties go away from zero: negative values are decremented before the shift. */
    .macro scale_vector sums
    vldrb.8 q0, [r9], #16
    vldrb.8 q1, [r9], #16
    vqrdmulh.s32 \sums, \sums, q0
    vshr.s32 q0, \sums, #31
    vadd.i32 \sums, \sums, q0
    vrshl.s32 \sums, \sums, q1
    .endm

    function cortado_depthwise3x3_pixels_s8__mve
    push    {r4-r11, lr}
    vpush   {d8-d15}
    sub     sp, sp, #FRAME
    mov     r10, r1
    str     r2, [sp, #PIXELS]
    ldrd    r3, r4, [r0, #NINE_OFFSET]
    ldr     r5, [r0, #NINE_OFFSET + 8]
    vdup.16 q0, r3
    vdup.8  q1, r4
    vdup.8  q2, r5
    vstrw.32 q0, [sp, #OFFSET]
    vstrw.32 q1, [sp, #LOW]
    vstrw.32 q2, [sp, #HIGH]
    mov     r12, r0
    add     r0, r0, #NINE_TAPS
    ldm     r0, {r0-r8}
    /* One turn: one pixel. */
.Lnine_pixel:
    ldrd    r9, r11, [r12, #NINE_STREAM]
    /* One turn: sixteen channels. */
.Lnine_channels:
    cmp     r11, #16
    bge     .Lnine_sixteen_left
    /* Fewer than sixteen left: go back to the last sixteen. */
    rsb     lr, r11, #16
    sub     r0, r0, lr
    sub     r1, r1, lr
    sub     r2, r2, lr
    sub     r3, r3, lr
    sub     r4, r4, lr
    sub     r5, r5, lr
    sub     r6, r6, lr
    sub     r7, r7, lr
    sub     r8, r8, lr
    sub     r10, r10, lr
.Lnine_sixteen_left:
    vldrb.8 q4, [r9], #16
    vldrb.8 q5, [r9], #16
    vldrb.8 q6, [r9], #16
    vldrb.8 q7, [r9], #16
    two_taps r0, r1
    two_taps r2, r3
    two_taps r4, r5
    two_taps r6, r7
    one_tap r8
    widen
    scale_vector q4
    scale_vector q5
    scale_vector q6
    scale_vector q7
    vldrw.32 q0, [sp, #OFFSET]
    vqmovnb.s32 q4, q4
    vqmovnt.s32 q4, q5
    vqmovnb.s32 q6, q6
    vqmovnt.s32 q6, q7
    vqadd.s16 q4, q4, q0
    vqadd.s16 q6, q6, q0
    vldrw.32 q1, [sp, #LOW]
    vqmovnb.s16 q4, q4
    vqmovnt.s16 q4, q6
    vldrw.32 q2, [sp, #HIGH]
    vmax.s8 q4, q4, q1
    vmin.s8 q4, q4, q2
    subs    r11, r11, #16
    vstrb.8 q4, [r10], #16
    bgt     .Lnine_channels
    /* Each row of taps moves on to the next pixel. */
    ldr     lr, [r12, #NINE_SKIP]
    ldrd    r9, r11, [r12, #NINE_SKIP + 4]
    add     r0, r0, lr
    add     r1, r1, lr
    add     r2, r2, lr
    add     r3, r3, r9
    add     r4, r4, r9
    add     r5, r5, r9
    add     r6, r6, r11
    add     r7, r7, r11
    add     r8, r8, r11
    ldr     lr, [sp, #PIXELS]
    subs    lr, lr, #1
    str     lr, [sp, #PIXELS]
    bne     .Lnine_pixel
    add     sp, sp, #FRAME
    vpop    {d8-d15}
    pop     {r4-r11, pc}
    .size   cortado_depthwise3x3_pixels_s8__mve, . - cortado_depthwise3x3_pixels_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
