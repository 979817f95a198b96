/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of pixels of a 3x3 depthwise convolution with vector instructions: depthwise3x3_pixels_s8__mve.h.
 *
 *   void cortado_depthwise3x3_pixels_s8__mve(const cortado_depthwise3x3_pixels_t *N, int8_t *out, int32_t pixels)
 *
 * Tile: 1 pixel x 16 channels, the nine taps in registers. Scratch: none.
 *
 * Products of bytes are halfwords, those of the even channels and those of the odd ones apart. Two of them fit a
 * halfword (no weight is -128), so taps are added in pairs before they are widened. The even channels come first, then
 * the odd ones: with two vectors of sums at a time, a pair can be multiplied while the one before is widened.
 *
 *   even: q4 channels 0, 4, 8, 12   q5 channels 2, 6, 10, 14   odd: q4 channels 1, 5, 9, 13   q5 channels 3, 7, 11, 15
 *
 * and narrowing them the same way puts the channels back in order. The stream, for each sixteen channels, of which the
 * last may overlap those before; all shifts are to the right:
 *
 *   | biases 16 x 4, even q4, even q5, odd q4, odd q5 |
 *   | weights 16, channels in order |  each of nine taps
 *   | multipliers 4 x 4 | shifts 4 x 4 |  in the order of the biases
 *
 *   r0 to r8 taps   r9 stream   r10 out   r11 channels left   r12 N   lr free
 *   q0 to q3, q6 x, weights and products   q4, q5 sums   q7 the even channels' outputs
 */
#include "cortado_asm.h"
#include "depthwise3x3_pixels_s8__mve.h"

#if defined(__ARM_FEATURE_MVE)

/* Frame. */
#define LOW 0      /* as bytes */
#define HIGH 16    /* as bytes */
#define PIXELS 32  /* left */
#define OFFSET 36  /* the output offset; TIES is read with it */
#define TIES 40    /* 0: a negative output is the lowest there is, whichever way it is rounded */
#define FRAME 48

/* The stream of sixteen channels. */
#define WEIGHTS 64
#define FACTORS (WEIGHTS + 9 * 16)
#define CHANNELS_BYTES (FACTORS + 8 * 16)

/* A tap's x; the second time the tap moves on. */
    .macro load_x to, tap, odd
    .if \odd
    vldrb.8 \to, [\tap], #16
    .else
    vldrb.8 \to, [\tap]
    .endif
    .endm

    .macro load_weights to, tap
    vldrw.32 \to, [r9, #WEIGHTS + 16 * \tap]
    .endm

/* The products of two taps, \n and the next, in \a0 and \a1; between them, the sum of those before, \b0 and \b1 (if
 * \pair; else \b0 alone), is widened and added. */
    .macro two_taps op, odd, n, first, second, a0, a1, a2, b0, b1, pair
    load_x  \a0, \first, \odd
    .if \pair
    vadd.i16 \b0, \b0, \b1
    .endif
    load_weights \a1, \n
    vmovlb.s16 \b1, \b0
    \op\().s8 \a0, \a0, \a1
    vmovlt.s16 \b0, \b0
    load_x  \a1, \second, \odd
    vadd.i32 q4, q4, \b1
    load_weights \a2, (\n + 1)
    vadd.i32 q5, q5, \b0
    \op\().s8 \a1, \a1, \a2
    .endm

/* The sums of the even or the odd channels, scaled, in \to as halfwords. q0 and q1 hold the product of the last tap and
 * what is free. */
    .macro half op, odd, to
    two_taps \op, \odd, 0, r0, r1, q2, q3, q6, q0, q1, 0
    two_taps \op, \odd, 2, r2, r3, q6, q0, q1, q2, q3, 1
    two_taps \op, \odd, 4, r4, r5, q1, q2, q3, q6, q0, 1
    two_taps \op, \odd, 6, r6, r7, q3, q6, q0, q1, q2, 1
    vldrw.32 q0, [r9, #FACTORS + 64 * \odd]
    vadd.i16 q3, q3, q6
    vldrw.32 q1, [r9, #FACTORS + 64 * \odd + 32]
    vmovlb.s16 q6, q3
    vldrw.32 q2, [r9, #FACTORS + 64 * \odd + 16]
    vadd.i32 q4, q4, q6
    vqrdmulh.s32 q4, q4, q0
    vmovlt.s16 q3, q3
    ldr     lr, [sp, #TIES]
    vadd.i32 q5, q5, q3
    vldrw.32 q3, [r9, #FACTORS + 64 * \odd + 48]
    vqrdmulh.s32 q5, q5, q1
    cmp     lr, #0
    beq     .Lties_\@
    /* Ties go away from zero: negative values are decremented before the shift. */
    vshr.s32 q0, q4, #31
    vshr.s32 q1, q5, #31
    vadd.i32 q4, q4, q0
    vadd.i32 q5, q5, q1
.Lties_\@:
    .if \odd == 0
    load_x  q0, r8, 1 - \odd
    .endif
    vrshl.s32 q4, q4, q2
    .if \odd == 0
    load_weights q1, 8
    .endif
    vrshl.s32 q5, q5, q3
    .if \odd == 0
    vmullt.s8 q0, q0, q1
    .endif
    vqmovnb.s32 \to, q4
    .if \odd == 0
    vldrw.32 q4, [r9, #32]
    .endif
    vqmovnt.s32 \to, q5
    .if \odd == 0
    vldrw.32 q5, [r9, #48]
    .endif
    .endm

    function cortado_depthwise3x3_pixels_s8__mve
    push    {r4-r11, lr}
    vpush   {d8-d15}
    sub     sp, sp, #FRAME
    mov     r10, r1
    str     r2, [sp, #PIXELS]
    ldrd    r3, r4, [r0, #NINE_OFFSET]
    ldr     r5, [r0, #NINE_OFFSET + 8]
    subs    r6, r4, r3
    strd    r3, r6, [sp, #OFFSET]
    vdup.8  q1, r4
    vdup.8  q2, r5
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
    vldrb.8 q0, [r8]
    load_weights q1, 8
    vldrw.32 q4, [r9]
    vmullb.s8 q0, q0, q1
    vldrw.32 q5, [r9, #16]
    half    vmullb, 0, q7
    half    vmullt, 1, q6
    ldr     lr, [sp, #OFFSET]
    subs    r11, r11, #16
    vqadd.s16 q7, q7, lr
    vldrw.32 q1, [sp, #LOW]
    vqadd.s16 q6, q6, lr
    vldrw.32 q2, [sp, #HIGH]
    vqmovnb.s16 q7, q7
    vqmovnt.s16 q7, q6
    add     r9, r9, #CHANNELS_BYTES
    vmax.s8 q7, q7, q1
    vmin.s8 q7, q7, q2
    vstrb.8 q7, [r10], #16
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
