/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise pixels with vector instructions: depthwise_pixel_s8.h. All channels of one, sixteen at a time; or, of fewer
 * than sixteen channels, a run of pixels, as many whole ones as fit sixteen at a time; or either, with several outputs
 * of each channel.
 *
 *   void cortado_depthwise_pixel_s8__mve(const cortado_depthwise_pixel_t *P, int8_t *out, int32_t moved)
 *   void cortado_depthwise_few_pixels_s8__mve(const cortado_depthwise_pixel_t *P, int8_t *out, int32_t bytes)
 *   void cortado_depthwise_several_pixels_s8__mve(const cortado_depthwise_several_t *P, int8_t *out, int32_t pieces)
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
 * Of several outputs, all the first ones of sixteen channels are a sixteen of the stream, then the second ones, and so
 * on. Each is stored where its channel's outputs are, as many bytes from one to the next as a channel has outputs.
 * Channels that make a sixteen whole are zeros, and their lanes neither loaded nor stored.
 *
 * A turn of the loop takes two taps. The odd sums of the turn before are widened beside the even products of this one,
 * so no instruction waits for the one before it; the last one or two taps, already loaded, are a turn each.
 *
 *   r1 stream   r2 taps   r3 out, less r12's start   r4, r5 two taps   r6 pairs of taps, of all but the last
 *   r7 where r12 ends (few, several: bytes left)   r8 whether the taps are an even number   r9 output offset   r10 P
 *   r11 low
 *   r12 from a tap to its channel (few: its byte)   q0 odd sums of the turn before   q1 second x   q2 first x
 *   q3 weights   q4 to q7 sums
 */
#include "cortado_asm.h"
#include "depthwise_pixel_s8.h"

#if defined(__ARM_FEATURE_MVE)

/* The bytes under a tap; of few channels those that there are. */
    .macro load_x to, tap, few
    .if \few
    vpst
    vldrbt.8 \to, [\tap]
    .else
    vldrb.8 \to, [\tap]
    .endif
    .endm

/* The next tap. */
    .macro load_tap to
    ldr     \to, [r2], #4
    add     \to, \to, r12
    .endm

/* Two taps: x of the first and its weights are in q2 and q3, and so are those of the tap behind in the end. */
    .macro two_taps few
    vmovlb.s16 q1, q0
    ldr     r5, [r2], #4
    vadd.i32 q6, q6, q1
    vmullb.s8 q3, q2, q3
    vmovlt.s16 q0, q0
    add     r5, r5, r12
    load_x  q1, r5, \few
    vadd.i32 q7, q7, q0
    vldrw.32 q0, [r1, #16]
    vmullb.s8 q0, q1, q0
    ldr     r4, [r2], #4
    vadd.i16 q3, q3, q0
    add     r4, r4, r12
    vmovlb.s16 q0, q3
    vadd.i32 q4, q4, q0
    vldrw.32 q0, [r1]
    vmovlt.s16 q3, q3
    vmullt.s8 q2, q2, q0
    vadd.i32 q5, q5, q3
    vldrw.32 q3, [r1, #16]
    vmullt.s8 q1, q1, q3
    vldrw.32 q3, [r1, #32]!
    vadd.i16 q0, q2, q1
    load_x  q2, r4, \few
    .endm

/* A tap of the last ones, loaded like that: its odd products are in q0 in the end. */
    .macro one_tap
    vmovlb.s16 q1, q0
    vadd.i32 q6, q6, q1
    vmullb.s8 q1, q2, q3
    vmovlt.s16 q0, q0
    vadd.i32 q7, q7, q0
    vmullt.s8 q0, q2, q3
    vmovlb.s16 q2, q1
    vadd.i32 q4, q4, q2
    vmovlt.s16 q1, q1
    vadd.i32 q5, q5, q1
    adds    r1, r1, #16
    .endm

/* All sums, from the biases on; the last odd ones are still in q0. */
    .macro all_taps few
    ldr     r4, [r2], #4
    vldrw.32 q4, [r1], #16
    mov     r0, r8
    add     r4, r4, r12
    vldrw.32 q5, [r1], #16
    vldrw.32 q6, [r1], #16
    vmov.i32 q0, #0
    vldrw.32 q7, [r1], #16
    load_x  q2, r4, \few
    vldrw.32 q3, [r1]
    wls     lr, r6, .Lpairs_done_\@
    /* One turn: two taps. */
.Ltwo_taps_\@:
    two_taps \few
    le      lr, .Ltwo_taps_\@
    /* One turn: one of the last taps. */
.Lpairs_done_\@:
    one_tap
    cbz     r0, .Llast_\@
    load_tap r4
    movs    r0, #0
    load_x  q2, r4, \few
    vldrw.32 q3, [r1]
    b       .Lpairs_done_\@
.Llast_\@:
    .endm

/* Ties go away from zero: negative sums are decremented before a right shift. */
    .macro round_shift sums, by, ties
    .if \ties
    vand    q1, \sums, \by
    vshr.s32 q1, q1, #31
    vadd.i32 \sums, \sums, q1
    .endif
    vrshl.s32 \sums, \sums, \by
    .endm

/* The last odd sums are widened, and all sums multiplied and shifted. */
    .macro scale_sums ties
    vmovlb.s16 q1, q0
    vldrw.32 q2, [r1]
    vadd.i32 q6, q6, q1
    vqrdmulh.s32 q4, q4, q2
    vmovlt.s16 q0, q0
    vldrw.32 q3, [r1, #32]
    vadd.i32 q7, q7, q0
    vqrdmulh.s32 q5, q5, q3
    vldrw.32 q0, [r1, #16]
    vldrw.32 q2, [r1, #64]
    round_shift q4, q0, \ties
    vqrdmulh.s32 q6, q6, q2
    vldrw.32 q0, [r1, #48]
    vldrw.32 q3, [r1, #96]
    round_shift q5, q0, \ties
    vqrdmulh.s32 q7, q7, q3
    vldrw.32 q2, [r1, #80]
    vldrw.32 q3, [r1, #112]
    round_shift q6, q2, \ties
    round_shift q7, q3, \ties
    .endm

/* What P, r0, says of the layer to its registers. */
    .macro load_layer
    mov     r10, r0
    ldrd    r2, r6, [r0, #PIXEL_TAPS]
    sub     r6, r6, r2
    subs    r6, r6, #4
    ubfx    r8, r6, #2, #1
    lsrs    r6, r6, #3
    add     r11, r0, #PIXEL_OFFSET
    ldm     r11, {r9, r11}
    .endm

/* The sums to sixteen outputs in q4, and where they go in r4. Where negative ones become the lowest output, ties don't
 * matter. */
    .macro finish
    cmp     r9, r11
    beq     .Lno_ties_\@
    scale_sums 1
    b       .Lscaled_\@
.Lno_ties_\@:
    scale_sums 0
.Lscaled_\@:
    vqmovnb.s32 q4, q4
    ldr     lr, [r10, #PIXEL_HIGH]
    vqmovnt.s32 q4, q5
    vqmovnb.s32 q6, q6
    vdup.8  q2, r11
    vqmovnt.s32 q6, q7
    vdup.8  q3, lr
    vqadd.s16 q4, q4, r9
    vqadd.s16 q6, q6, r9
    vqmovnb.s16 q4, q4
    add     r4, r3, r12
    vqmovnt.s16 q4, q6
    vmax.s8 q4, q4, q2
    vmin.s8 q4, q4, q3
    .endm

    function cortado_depthwise_pixel_s8__mve
    push    {r4-r11, lr}
    vpush   {d8-d15}
    sub     r3, r1, r2
    mov     r12, r2
    load_layer
    ldr     r1, [r0, #PIXEL_STREAM]
    ldr     r7, [r0, #PIXEL_CHANNELS]
    add     r7, r7, r12
    /* One turn: sixteen channels. */
.Lpixel_channels:
    ldr     r2, [r10, #PIXEL_TAPS]
    all_taps 0
    finish
    adds    r1, r1, #128
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
    mov     r3, r1
    mov     r12, #0
    load_layer
    /* One turn: as many whole pixels as fit sixteen bytes; the lanes past the run's end are neither loaded nor
     * stored. */
.Lfew_pixels:
    vctp.8  r7
    ldrd    r1, r2, [r10, #PIXEL_STREAM]
    all_taps 1
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

/* Frame of several outputs. */
#define PLACES 0  /* of the lanes' outputs, from the first one's */
#define OUT 16    /* of the piece; r12 of it is read with it */
#define PIECES 24 /* left */
#define LEFT 28   /* outputs of the channels */
#define SEVERAL_FRAME 32

    function cortado_depthwise_several_pixels_s8__mve
    push    {r4-r11, lr}
    vpush   {d8-d15}
    sub     sp, sp, #SEVERAL_FRAME
    str     r2, [sp, #PIECES]
    load_layer
    ldr     r4, [r0, #SEVERAL_EACH]
    movs    r0, #0
    vidup.u8 q0, r0, #1
    vmul.i8 q0, q0, r4
    vstrw.32 q0, [sp, #PLACES]
    mov     r12, #0
    /* One turn: one piece. */
.Lseveral_piece:
    strd    r1, r12, [sp, #OUT]
    sub     r3, r1, r12
    ldr     r1, [r10, #PIXEL_STREAM]
    ldr     r7, [r10, #SEVERAL_BYTES]
    /* One turn: sixteen channels, or as many whole pixels as fit. */
.Lseveral_channels:
    vctp.8  r7
    ldr     r4, [r10, #SEVERAL_EACH]
    /* One turn: one output of each. */
.Lseveral_each:
    str     r4, [sp, #LEFT]
    ldr     r2, [r10, #PIXEL_TAPS]
    all_taps 1
    finish
    vldrw.32 q0, [sp, #PLACES]
    adds    r1, r1, #128
    vpst
    vstrbt.8 q4, [r4, q0]
    ldr     r4, [sp, #LEFT]
    adds    r3, r3, #1
    subs    r4, r4, #1
    bne     .Lseveral_each
    /* The next channels, and where their outputs go. */
    ldrd    r0, r5, [r10, #SEVERAL_BACK]
    ldr     r4, [r10, #PIXEL_CHANNELS]
    subs    r1, r1, r0
    add     r3, r3, r5
    add     r12, r12, r4
    subs    r7, r7, r4
    bgt     .Lseveral_channels
    ldrd    r1, r12, [sp, #OUT]
    ldrd    r4, r5, [r10, #SEVERAL_OUT_STEP]
    ldr     r0, [sp, #PIECES]
    add     r1, r1, r4
    add     r12, r12, r5
    subs    r0, r0, #1
    str     r0, [sp, #PIECES]
    bne     .Lseveral_piece
    add     sp, sp, #SEVERAL_FRAME
    vpop    {d8-d15}
    pop     {r4-r11, pc}
    .size   cortado_depthwise_several_pixels_s8__mve, . - cortado_depthwise_several_pixels_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
