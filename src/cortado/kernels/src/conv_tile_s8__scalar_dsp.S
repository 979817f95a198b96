/* SPDX-License-Identifier: Apache-2.0
 *
 * All output channels of a tile of pixels, for cores without vector instructions: conv_tile_s8__scalar_dsp.h.
 *
 *   const int8_t *cortado_conv_tile2_s8(const cortado_conv_tile_t *T, const void *x, int32_t pixels, int8_t *out)
 *   const int8_t *cortado_conv_tile4_s8(const cortado_conv_tile_t *T, const void *x, int32_t pixels, int8_t *out)
 *
 * Tile: 2 or 4 pixels; 1 channel at a time, on long cores 2. Scratch: none of its own; x is the kernel's.
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
    scale_small
    limit_small
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

/* Two or four sums, r4 on, to one channel of their pixels; its factors are next in the stream, r1. A last pixel that is
 * none goes where the one before it went (its inputs are the same): \step is 0 then. Leaves the next out in r2.
 *
 *   r0 right shift   r2 out   r3 stride   r8 multiplier, then step   r9 shift word   r10 offset   r11 low   r12 high
 */
    .macro store_channel count, layer, step, out
    ldrd    r8, r9, [r1], #8
    ldr     r2, [sp, #\layer]
    add     r2, r2, #TILE_STRIDE
    ldm     r2, {r3, r10, r11, r12}
    ubfx    r0, r9, #8, #5
    scale   r4
    scale   r5
    .if \count == 4
    scale   r6
    scale   r7
    .endif
    sub     lr, r12, r11
    ldrd    r8, r2, [sp, #\step]
    /* No clamp is the common one: [-128, 127] is one instruction for each output. */
    cmp     lr, #255
    bne     .Lclamp_\@
    ssat    r4, #8, r4
    ssat    r5, #8, r5
    .if \count == 4
    ssat    r6, #8, r6
    ssat    r7, #8, r7
    .endif
    b       .Lstore_\@
.Lclamp_\@:
    limit   r4
    limit   r5
    .if \count == 4
    limit   r6
    limit   r7
    .endif
.Lstore_\@:
    strb    r4, [r2]
    .if \count == 4
    strb    r5, [r2, r3]
    strb    r6, [r2, r3, lsl #1]
    add     r8, r8, r3, lsl #1
    strb    r7, [r2, r8]
    .else
    strb    r5, [r2, r8]
    .endif
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
    store_channel 2, LAYER, STEP, OUT
    ldr     r0, [sp, #OUT_END]
    cmp     r2, r0
    bne     .Ltile2_channel
    mov     r0, r1
    add     sp, sp, #28
    pop     {r4-r11, pc}
    .size   CORTADO_ISA(cortado_conv_tile2_s8), . - CORTADO_ISA(cortado_conv_tile2_s8)

#else

/* ---- long: two pixels in the lanes of a 64-bit sum, two channels at a time
 * --------------------------------------------
 *
 * While products are added:
 *   r0 x   r1 stream   r2, r3 words of x: pixels 0 and 1, pixels 2 and 3   r12 one weight   lr end of the run
 *   r4:r5, r6:r7 sums of the first channel, of pixels 0 and 1 and of 2 and 3   r8:r9, r10:r11 of the second
 */

/* Frame. */
#define SUMS 0     /* of two channels, four words each */
#define X_END 32
#define SECOND 36  /* whether this is the second channel */
#define OUT_END 40 /* the end of the channels of the first pixel; read with SECOND */
#define LAYER 44   /* T, as it was passed */
#define X 48       /* as it was passed */
#define STEP 52    /* to the last pixel, where `pixels` was passed */
#define OUT 56     /* as it was passed; read with STEP */
#define RUN 252    /* products whose lower lane fits in any case; a multiple of 4 */

    /* Fills the frame. r1 stream then. */
    .macro enter count
    push    {r0-r11, lr}
    sub     sp, sp, #44
    ldr     r4, [r0, #TILE_STRIDE]
    cmp     r2, #\count
    it      ne
    movne   r4, #0
    str     r4, [sp, #STEP]
    ldr     r4, [r0, #TILE_CHANNELS]
    add     r4, r4, r3
    ldr     r5, [r0, #TILE_DEPTH]
    .if \count == 4
    add     r5, r1, r5, lsl #3
    .else
    add     r5, r1, r5, lsl #2
    .endif
    str     r5, [sp, #X_END]
    str     r4, [sp, #OUT_END]
    ldr     r1, [r0, #TILE_STREAM]
    .endm

    /* All sums start at their channel's bias. */
    .macro start
    ldrd    r4, r6, [r1], #8
    ldr     r0, [sp, #X]
    mov     r5, r4
    mov     r7, r6
    strd    r4, r5, [sp, #SUMS]
    strd    r4, r5, [sp, #SUMS + 8]
    strd    r6, r7, [sp, #SUMS + 16]
    strd    r6, r7, [sp, #SUMS + 24]
    .endm

    /* lr = end of the next run, of at most RUN products of `bytes` bytes of x. */
    .macro next_run bytes
    ldr     lr, [sp, #X_END]
    sub     r2, lr, r0
    cmp     r2, #RUN * \bytes
    it      gt
    addgt   lr, r0, #RUN * \bytes
    .endm

    /* Adds both lanes of a 64-bit sum that started at half a lane. */
    .macro separate low, high, at
    ldrd    r2, r3, [sp, #SUMS + \at]
    ubfx    r12, \low, #0, #23
    lsrs    \low, \low, #23
    sub     r12, r12, #0x400000
    orr     \low, \low, \high, lsl #9
    add     r2, r2, r12
    add     r3, r3, \low
    strd    r2, r3, [sp, #SUMS + \at]
    .endm

    /* Both channels, or the one that is left; then the next two, or the end. */
    .macro channels count, channel
    ldm     sp, {r4-r7}
    movs    r0, #0
    /* One turn: one of the two channels to its outputs. */
.Lfinish_channel_\@:
    str     r0, [sp, #SECOND]
    store_channel \count, LAYER, STEP, OUT
    ldrd    r3, r0, [sp, #SECOND]
    cmp     r2, r0
    beq     .Lreturn_\@
    cbnz    r3, .Lnext_channels_\@
    add     r0, sp, #16
    ldm     r0, {r4-r7}
    b       .Lfinish_channel_\@
.Lnext_channels_\@:
    b       \channel
    /* The stream ends after the factors of two channels, of which the second may be none. */
.Lreturn_\@:
    cmp     r3, #0
    ite     eq
    addeq   r0, r1, #8
    movne   r0, r1
    add     sp, sp, #60
    pop     {r4-r11, pc}
    .endm

    /* One product of four pixels and two channels. */
    .macro products4
    ldrd    r2, r3, [r0], #8
    ldrsb   r12, [r1], #1
    smlal   r4, r5, r2, r12
    smlal   r6, r7, r3, r12
    ldrsb   r12, [r1], #1
    smlal   r8, r9, r2, r12
    smlal   r10, r11, r3, r12
    .endm

    function CORTADO_ISA(cortado_conv_tile4_s8)
    enter   4
    /* One turn: two channels of three or four pixels. */
.Ltile4_channels:
    start
    /* One turn: as many products as the lanes hold, from sums of half a lower lane each. */
.Ltile4_run:
    next_run 8
    mov     r4, #0x400000
    movs    r5, #0
    mov     r6, r4
    mov     r7, r5
    mov     r8, r4
    mov     r9, r5
    mov     r10, r4
    mov     r11, r5
    /* One turn: four products of each pixel and channel. */
.Ltile4_products:
    products4
    products4
    products4
    products4
    cmp     r0, lr
    bne     .Ltile4_products
    separate r4, r5, 0
    separate r6, r7, 8
    separate r8, r9, 16
    separate r10, r11, 24
    ldr     lr, [sp, #X_END]
    cmp     r0, lr
    bne     .Ltile4_run
    channels 4, .Ltile4_channels
    .size   CORTADO_ISA(cortado_conv_tile4_s8), . - CORTADO_ISA(cortado_conv_tile4_s8)

    /* One product of two pixels and two channels. */
    .macro products2
    ldr     r2, [r0], #4
    ldrsb   r12, [r1], #1
    smlal   r4, r5, r2, r12
    ldrsb   r12, [r1], #1
    smlal   r8, r9, r2, r12
    .endm

    function CORTADO_ISA(cortado_conv_tile2_s8)
    enter   2
    /* One turn: two channels of one or two pixels. */
.Ltile2_channels:
    start
    /* One turn: as many products as the lanes hold. */
.Ltile2_run:
    next_run 4
    mov     r4, #0x400000
    movs    r5, #0
    mov     r8, r4
    mov     r9, r5
    /* One turn: four products of each pixel and channel. */
.Ltile2_products:
    products2
    products2
    products2
    products2
    cmp     r0, lr
    bne     .Ltile2_products
    separate r4, r5, 0
    separate r8, r9, 16
    ldr     lr, [sp, #X_END]
    cmp     r0, lr
    bne     .Ltile2_run
    channels 2, .Ltile2_channels
    .size   CORTADO_ISA(cortado_conv_tile2_s8), . - CORTADO_ISA(cortado_conv_tile2_s8)

#endif
#endif
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
