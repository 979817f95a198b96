/* SPDX-License-Identifier: Apache-2.0
 *
 * All output channels of a tile of pixels, for cores without vector instructions: conv_tile_s8__scalar_dsp.h.
 *
 *   const int8_t *cortado_conv_tile2_s8(const cortado_conv_tile_t *T, const void *x, int32_t pixels, int8_t *out)
 *   const int8_t *cortado_conv_tile4_s8(const cortado_conv_tile_t *T, const void *x, int32_t pixels, int8_t *out)
 *                 small cores only
 *
 * Tile: 2 pixels, on small cores 4 too; 1 channel at a time, on long cores 2. Scratch: none of its own; x is the
 * kernel's.
 *
 * The stream, from T->stream on, in the order in which it is read (d = T->depth, a multiple of 4):
 *
 *   DSP, each channel         | bias 4 | weights d | multiplier 4 | shifts 4 |
 *   long, each two channels   | biases 2 x 4 | weights d of both, by turns | multiplier 4 | shifts 4 | twice
 *   small, each channel       | weights d | bias 4 | multiplier 4, as two signed halves | shifts 4 |
 *
 * The words of the factors are those of cortado_asm.h.
 */
#include "conv_tile_s8__scalar_dsp.h"
#include "cortado_asm.h"

#if defined(__thumb__)

#if CORTADO_SMALL_CORE

/* ---- small: two pixels in the 16-bit lanes of a word --------------------------------------------------------------
 *
 * While products are added:
 *   r0 x   r1 stream   r2 to r5 four words of x, then products   r6 four weights   r7 one weight
 *   r8, r9 pixels 0 and 1: total, upper lanes   r10, r11 pixels 2 and 3   r12 2^15, rounds the upper lane   lr end of x
 * While a channel is scaled and stored:
 *   r0 sum   r1 to r3 free   r4, r5 signed lower and upper half of the multiplier   r6 next sum   r7 out
 *   r8 shift word   r9 offset   r10 low   r11 high   r12 2^14   lr stride
 */

/* Frame. */
#define SUMS 0      /* of up to 4 pixels */
#define SUMS_END 16 /* where the sums of this tile's pixels end */
#define OUT_END 20  /* the end of the channels of the first pixel */
#define LAYER 24    /* T */
#define X 28
#define X_END 32
#define OUT 36
#define STREAM 40
#define FRAME 44

    /* Saves what the caller wants back and fills the frame; 2^log2_bytes bytes of x per product. r1 stream then. */
    .macro enter log2_bytes
    push    {r4-r7, lr}
    mov     r4, r8
    mov     r5, r9
    mov     r6, r10
    mov     r7, r11
    push    {r4-r7}
    sub     sp, sp, #FRAME
    str     r0, [sp, #LAYER]
    str     r1, [sp, #X]
    str     r3, [sp, #OUT]
    lsls    r2, r2, #2
    add     r2, r2, sp
    str     r2, [sp, #SUMS_END]
    ldr     r2, [r0, #TILE_CHANNELS]
    adds    r3, r3, r2
    str     r3, [sp, #OUT_END]
    ldr     r2, [r0, #TILE_DEPTH]
    lsls    r2, r2, #\log2_bytes
    adds    r2, r2, r1
    str     r2, [sp, #X_END]
    ldr     r1, [r0, #TILE_STREAM]
    .endm

    /* A new channel: lr end of x, r12 2^15, no sums in r8 and r9, r0 is 0. */
    .macro start
    ldr     r0, [sp, #X_END]
    mov     lr, r0
    movs    r0, #1
    lsls    r0, r0, #15
    mov     r12, r0
    movs    r0, #0
    mov     r8, r0
    mov     r9, r0
    .endm

    /* Adds a word of two lanes to the total, and its upper lane, rounded, to the upper lanes. */
    .macro collect word, total, upper
    add     \total, \word
    add     \word, r12
    asrs    \word, \word, #16
    add     \upper, \word
    .endm

    /* Both lanes of a pair, with the bias in r2, to the sums: the lower lane is total - upper * 2^16. */
    .macro separate total, upper, at
    mov     r5, \upper
    lsls    r6, r5, #16
    mov     r4, \total
    subs    r4, r4, r6
    adds    r4, r4, r2
    adds    r5, r5, r2
    str     r4, [sp, #SUMS + \at]
    str     r5, [sp, #SUMS + \at + 4]
    .endm

    /* Scales and stores the sums, then goes on with the next channel or returns. r1 stream, at the factors. */
    .macro finish channel
    ldmia   r1!, {r4, r5}
    mov     r8, r5
    lsrs    r5, r4, #16
    sxth    r4, r4
    str     r1, [sp, #STREAM]
    ldr     r0, [sp, #LAYER]
    ldr     r7, [sp, #OUT]
    adds    r0, r0, #TILE_STRIDE
    ldmia   r0!, {r1, r2, r3, r6}
    mov     lr, r1
    mov     r9, r2
    mov     r10, r3
    mov     r11, r6
    movs    r6, #1
    lsls    r6, r6, #14
    mov     r12, r6
    mov     r6, sp
    /* One turn: one pixel's sum to its output. */
.Lstore_pixel_\@:
    ldmia   r6!, {r0}
    output_small
    strb    r0, [r7]
    add     r7, r7, lr
    ldr     r1, [sp, #SUMS_END]
    cmp     r6, r1
    bne     .Lstore_pixel_\@
    ldr     r1, [sp, #STREAM]
    ldr     r2, [sp, #OUT]
    adds    r2, r2, #1
    str     r2, [sp, #OUT]
    ldr     r3, [sp, #OUT_END]
    cmp     r2, r3
    beq     .Lreturn_\@
    b       \channel
.Lreturn_\@:
    movs    r0, r1
    add     sp, sp, #FRAME
    pop     {r4-r7}
    mov     r8, r4
    mov     r9, r5
    mov     r10, r6
    mov     r11, r7
    pop     {r4-r7, pc}
    .endm

    function CORTADO_ISA(cortado_conv_tile2_s8)
    enter   2
    /* One turn: one channel of one or two pixels. */
.Ltile2_channel:
    start
    ldr     r0, [sp, #X]
    /* One turn: four products of both pixels. Two words of products fit a lane, then they are collected. */
.Ltile2_products:
    ldmia   r1!, {r6}
    ldmia   r0!, {r2-r5}
    sxtb    r7, r6
    muls    r2, r7, r2
    asrs    r6, r6, #8
    sxtb    r7, r6
    muls    r3, r7, r3
    adds    r2, r2, r3
    collect r2, r8, r9
    asrs    r6, r6, #8
    sxtb    r7, r6
    muls    r4, r7, r4
    asrs    r6, r6, #8
    muls    r5, r6, r5
    adds    r4, r4, r5
    collect r4, r8, r9
    cmp     r0, lr
    bne     .Ltile2_products
    ldmia   r1!, {r2}
    separate r8, r9, 0
    finish  .Ltile2_channel
    .size   CORTADO_ISA(cortado_conv_tile2_s8), . - CORTADO_ISA(cortado_conv_tile2_s8)

    function CORTADO_ISA(cortado_conv_tile4_s8)
    enter   3
    /* One turn: one channel of three or four pixels. */
.Ltile4_channel:
    start
    mov     r10, r0
    mov     r11, r0
    ldr     r0, [sp, #X]
    /* One turn: four products of two pairs of pixels. */
.Ltile4_products:
    ldmia   r1!, {r6}
    ldmia   r0!, {r2-r5}
    sxtb    r7, r6
    muls    r2, r7, r2
    muls    r3, r7, r3
    asrs    r6, r6, #8
    sxtb    r7, r6
    muls    r4, r7, r4
    muls    r5, r7, r5
    adds    r2, r2, r4
    adds    r3, r3, r5
    collect r2, r8, r9
    collect r3, r10, r11
    ldmia   r0!, {r2-r5}
    asrs    r6, r6, #8
    sxtb    r7, r6
    muls    r2, r7, r2
    muls    r3, r7, r3
    asrs    r6, r6, #8
    muls    r4, r6, r4
    muls    r5, r6, r5
    adds    r2, r2, r4
    adds    r3, r3, r5
    collect r2, r8, r9
    collect r3, r10, r11
    cmp     r0, lr
    bne     .Ltile4_products
    ldmia   r1!, {r2}
    separate r8, r9, 0
    separate r10, r11, 8
    finish  .Ltile4_channel
    .size   CORTADO_ISA(cortado_conv_tile4_s8), . - CORTADO_ISA(cortado_conv_tile4_s8)

#else

/* ---- long and DSP: what they share ---------------------------------------------------------------------------- */

/* The sums of both pixels, r4 and r5, to one channel; its factors are next in the stream, r1. A last pixel that is none
 * goes where the one before it went (its inputs are the same): \step is 0 then. Leaves the next out in r2.
 *
 *   r0 right shift   r2 out   r3 step   r8 multiplier   r9 shift word   r10 offset   r11 low   r12 high
 */
    .macro store_channel layer, step, out
    ldrd    r8, r9, [r1], #8
    ldr     r2, [sp, #\layer]
    add     r2, r2, #TILE_STRIDE + 4
    ldm     r2, {r10, r11, r12}
    ubfx    r0, r9, #8, #5
    scale   r4
    scale   r5
    sub     lr, r12, r11
    ldrd    r3, r2, [sp, #\step]
    /* No clamp is the common one: [-128, 127] is one instruction for each output. */
    cmp     lr, #255
    bne     .Lclamp_\@
    ssat    r4, #8, r4
    ssat    r5, #8, r5
    b       .Lstore_\@
.Lclamp_\@:
    limit   r4
    limit   r5
.Lstore_\@:
    strb    r4, [r2]
    strb    r5, [r2, r3]
    adds    r2, r2, #1
    str     r2, [sp, #\out]
    .endm

#if defined(__ARM_FEATURE_DSP)

/* ---- DSP: two products per multiply -------------------------------------------------------------------------------
 *
 * While products are added:
 *   r0 x   r1 stream   r2, r3 four weights each   r4, r5 sums of pixels 0 and 1   r8 to r11 words of x
 *   r12 two weights as halfwords   lr end of x
 */

/* Frame. */
#define OUT_END 0 /* the end of the channels of the first pixel */
#define X_END 4
#define FOUR 8    /* whether four products come before the eights; read with X_END */
#define LAYER 12  /* T, as it was passed */
#define X 16      /* as it was passed */
#define STEP 20   /* to the last pixel, where `pixels` was passed */
#define OUT 24    /* as it was passed; read with STEP */

    /* Four products of two pixels. */
    .macro products2 weights
    ldm     r0!, {r8-r11}
    sxtb16  r12, \weights
    smlad   r4, r8, r12, r4
    smlad   r5, r9, r12, r5
    sxtb16  r12, \weights, ror #8
    smlad   r4, r10, r12, r4
    smlad   r5, r11, r12, r5
    .endm

    function CORTADO_ISA(cortado_conv_tile2_s8)
    push    {r0-r11, lr}
    sub     sp, sp, #12
    ldr     r4, [r0, #TILE_STRIDE]
    cmp     r2, #2
    it      ne
    movne   r4, #0
    str     r4, [sp, #STEP]
    ldr     r4, [r0, #TILE_CHANNELS]
    add     r4, r4, r3
    str     r4, [sp, #OUT_END]
    ldr     r4, [r0, #TILE_DEPTH]
    add     r5, r1, r4, lsl #2
    and     r4, r4, #4
    strd    r5, r4, [sp, #X_END]
    ldr     r1, [r0, #TILE_STREAM]
    /* One turn: one channel of one or two pixels; both sums start at its bias. */
.Ltile2_channel:
    ldr     r4, [r1], #4
    ldr     r0, [sp, #X]
    ldrd    lr, r2, [sp, #X_END]
    mov     r5, r4
    cbz     r2, .Ltile2_products
    ldr     r3, [r1], #4
    b       .Ltile2_second
    /* One turn: eight products of each pixel; where they are no multiple of eight, the first turn has four. */
.Ltile2_products:
    ldrd    r2, r3, [r1], #8
    products2 r2
.Ltile2_second:
    products2 r3
    cmp     r0, lr
    bne     .Ltile2_products
    store_channel LAYER, STEP, OUT
    ldr     r0, [sp, #OUT_END]
    cmp     r2, r0
    bne     .Ltile2_channel
    mov     r0, r1
    add     sp, sp, #28
    pop     {r4-r11, pc}
    .size   CORTADO_ISA(cortado_conv_tile2_s8), . - CORTADO_ISA(cortado_conv_tile2_s8)

#else

/* ---- long: two pixels in the 16-bit lanes of a word, two channels at a time -----------------------------------------
 *
 * Long multiplies that add take four to seven cycles on the Cortex-M3, a plain one takes one: as on small cores, two
 * products of both pixels fit the lanes of a word, which is added to a total, and its upper lane to a second one. A
 * lane lies in [-2 * 127 * 128, 2 * 128 * 128], whatever the weights: with LEAST more in both, neither is negative or
 * runs over. What that adds to the upper lanes, for every two products, is taken from them beforehand.
 *
 * While products are added:
 *   r0 x   r1 stream   r2, r3 words of x of two products   r8, r10 their weights of the first channel, r9, r11 of the
 *   second   r12 both products in their lanes   lr end of x
 *   r4, r5 total and upper lanes of the first channel   r6, r7 of the second
 */

/* Frame. */
#define OUT_END 0 /* the end of the channels of the first pixel */
#define X_END 4
#define FOUR 8    /* whether four products come before the eights */
#define MORE 12   /* what the products of a channel add to its upper lanes too much */
#define LAYER 16  /* T, as it was passed */
#define X 20      /* as it was passed */
#define STEP 24   /* to the last pixel, where `pixels` was passed */
#define OUT 28    /* as it was passed; read with STEP */
#define LEAST 0x7F00

    /* Two products of one channel, added up. */
    .macro collect first, second, total, upper
    mul     r12, r2, \first
    mla     r12, r3, \second, r12
    add     \total, \total, r12
    add     r12, r12, #(LEAST << 16) + LEAST
    add     \upper, \upper, r12, lsr #16
    .endm

    /* Two products of two channels, from product \k of the turn on. */
    .macro products k
    ldr     r2, [r0, #4 * \k]
    ldr     r3, [r0, #4 * \k + 4]
    ldrsb   r8, [r1, #2 * \k]
    ldrsb   r9, [r1, #2 * \k + 1]
    ldrsb   r10, [r1, #2 * \k + 2]
    ldrsb   r11, [r1, #2 * \k + 3]
    collect r8, r10, r4, r5
    collect r9, r11, r6, r7
    .endm

    function CORTADO_ISA(cortado_conv_tile2_s8)
    push    {r0-r11, lr}
    sub     sp, sp, #16
    ldr     r4, [r0, #TILE_STRIDE]
    cmp     r2, #2
    it      ne
    movne   r4, #0
    str     r4, [sp, #STEP]
    ldr     r4, [r0, #TILE_CHANNELS]
    add     r4, r4, r3
    str     r4, [sp, #OUT_END]
    ldr     r4, [r0, #TILE_DEPTH]
    mov     r5, #LEAST / 2
    muls    r5, r4, r5
    str     r5, [sp, #MORE]
    add     r5, r1, r4, lsl #2
    and     r4, r4, #4
    strd    r5, r4, [sp, #X_END]
    ldr     r1, [r0, #TILE_STREAM]
    /* One turn: two channels of one or two pixels; both lanes start at the bias. */
.Ltile2_channels:
    ldrd    r5, r7, [r1], #8
    ldr     r0, [sp, #X]
    ldr     r3, [sp, #MORE]
    ldr     lr, [sp, #X_END]
    ldr     r2, [sp, #FOUR]
    add     r4, r5, r5, lsl #16
    add     r6, r7, r7, lsl #16
    subs    r5, r5, r3
    subs    r7, r7, r3
    cbz     r2, .Ltile2_products
    subs    r0, r0, #16
    subs    r1, r1, #8
    b       .Ltile2_second
    /* One turn: eight products of each pixel and channel; if they are no multiple of eight, the first turn has four. */
.Ltile2_products:
    products 0
    products 2
.Ltile2_second:
    products 4
    products 6
    adds    r0, r0, #32
    adds    r1, r1, #16
    cmp     r0, lr
    bne     .Ltile2_products
    sub     r4, r4, r5, lsl #16
    sub     r6, r6, r7, lsl #16
    store_channel LAYER, STEP, OUT
    ldr     r0, [sp, #OUT_END]
    mov     r4, r6
    mov     r5, r7
    cmp     r2, r0
    beq     .Ltile2_odd
    store_channel LAYER, STEP, OUT
    ldr     r0, [sp, #OUT_END]
    cmp     r2, r0
    bne     .Ltile2_channels
    b       .Ltile2_return
    /* The stream ends after the factors of two channels, of which the second is none here. */
.Ltile2_odd:
    adds    r1, r1, #8
.Ltile2_return:
    mov     r0, r1
    add     sp, sp, #32
    pop     {r4-r11, pc}
    .size   CORTADO_ISA(cortado_conv_tile2_s8), . - CORTADO_ISA(cortado_conv_tile2_s8)

#endif
#endif
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
