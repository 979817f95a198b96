/* SPDX-License-Identifier: Apache-2.0
 *
 * All output channels of one pixel or two with DSP instructions and 4-bit weights, those of four channels in every
 * halfword: conv_narrow_s8__dsp.h.
 *
 *   void cortado_conv_narrow_s8__dsp(const cortado_conv_tile_t *T, const void *x, int32_t pixels, int8_t *out)
 *
 * Tile: 2 pixels x 4 channels. Scratch: none of its own; x is the kernel's.
 *
 * A halfword of the stream is 4096 * d + 256 * (c + 8) + 16 * (b + 8) + a + 8, the weights of channels a to d. SMLAD
 * with it, with its lower byte (UXTB16), with bits 0 to 3 and with bits 8 to 11 gives four sums F, G, A and C, of which
 *
 *   sum a = A - 8 * sum x   sum b = (G - A) / 16 - 8 * sum x   sum c = C / 256 - 8 * sum x   sum d = (F - G - C) / 4096
 *
 * That is exact, whatever wraps on the way, if sum d fits 20 bits: after NARROW_SPAN products it is taken out. Sums of
 * c fit 24 bits up to 4,096 products.
 *
 * The stream, for each four channels; channels that make a four whole are zeros. (dcba)[k] is the halfword of product
 * k:
 *
 *   | (dcba)[k] (dcba)[k+2] | (dcba)[k+1] (dcba)[k+3] |  each four products
 *   | 2 * bias a 4 | 2 * bias b 4 | 2 * bias c 4 | 2 * bias d 4 |
 *   | multiplier 4 | right shift 4, at least 1 |  of a, of b, of c, of d
 *
 * While products are added:
 *   r0 x   r1 stream   r2, r3 a word of x of each pixel   r12 weights   lr some of their bits
 *   r4, r5 A of both pixels   r6, r7 G   r8, r9 C   r10, r11 F
 * Then sums are doubled:
 *   r0, r2 and r3, lr multiplier and right shift of two channels   r12 output offset
 *   r4, r5 four outputs of each pixel as one word
 */
#include "conv_narrow_s8__dsp.h"
#include "cortado_asm.h"

#if defined(__thumb__) && defined(__ARM_FEATURE_DSP)

/* Frame. */
#define LAST 0   /* the end of the channels of the first pixel, less 4 */
#define CLAMP 4  /* 0 if all of int8 is allowed */
#define STEP 8   /* to the second pixel, 0 if there is only one: its inputs are the first one's */
#define OUT 12
#define X 16
#define ENTRY 20 /* where the first turn over the products begins */
#define FIRST 24 /* where the first span of products ends, and where this one does */
#define SPAN 28
#define X_END 32
#define OFFSET 36
#define LOW 40   /* the least and the largest output, four times */
#define HIGH 44
#define SUM 48   /* 16 * sum x of the first pixel, and how much more that of the second is */
#define TAKEN 56 /* sums d of the spans before, of both pixels, doubled */
#define FRAME 64

/* Two products of both pixels and all four channels; 54 bytes of code. */
#define STEPS_BYTES 54
#define TURN 8 /* products of a turn */
    .macro products
    ldr.w   r12, [r1], #4
    ldr.n   r3, [r0, #4]
    ldr.w   r2, [r0], #8
    smlad   r10, r2, r12, r10
    smlad   r11, r3, r12, r11
    uxtb16  lr, r12
    smlad   r6, r2, lr, r6
    smlad   r7, r3, lr, r7
    and     lr, r12, #0x000F000F
    smlad   r4, r2, lr, r4
    smlad   r5, r3, lr, r5
    and     r12, r12, #0x0F000F00
    smlad   r8, r2, r12, r8
    smlad   r9, r3, r12, r9
    .endm

/* The sums of one pixel apart, doubled, with biases: r0, r2, r3 hold those of a to c less 16 * sum x, lr that of d. */
    .macro apart a, b, c, d
    sub     \d, \d, \b
    sub     \d, \d, \c
    sub     \b, \b, \a
    add     \d, lr, \d, asr #11
    add     \a, r0, \a, lsl #1
    add     \b, r2, \b, asr #3
    add     \c, r3, \c, asr #7
    .endm

/* Two channels of both pixels. */
    .macro scale_pair a0, a1, b0, b1
    ldm     r1!, {r0, r2, r3, lr}
    scale_right \a0, r0, r2
    scale_right \a1, r0, r2
    scale_right \b0, r3, lr
    scale_right \b1, r3, lr
    .endm

    function cortado_conv_narrow_s8__dsp
    push    {r4-r11, lr}
    sub     sp, sp, #FRAME
    strd    r3, r1, [sp, #OUT]
    add     r12, r0, #TILE_STRIDE
    ldm     r12, {r4-r7}
    strd    r5, r6, [sp, #OFFSET]
    cmp     r2, #1
    it      eq
    moveq   r4, #0
    subs    r5, r7, r6
    subs    r5, r5, #255
    strd    r5, r4, [sp, #CLAMP]
    uxtb    r6, r6
    uxtb    r7, r7
    mov     r4, #0x01010101
    muls    r6, r4, r6
    muls    r7, r4, r7
    strd    r6, r7, [sp, #LOW]
    ldrd    r4, r5, [r0, #TILE_DEPTH]
    add     r5, r5, r3
    subs    r5, r5, #4
    str     r5, [sp, #LAST]
    /* The first span has what is no whole span, and its first turn what is no whole turn. */
    add     r5, r1, r4, lsl #2
    subs    r6, r4, #1
    ubfx    r6, r6, #0, #9
    adds    r6, r6, #1
    add     r6, r1, r6, lsl #2
    rsbs    r4, r4, #0
    and     r4, r4, #TURN - 1
    movs    r7, #STEPS_BYTES / 2
    adr     r8, .Lnarrow_products
    mla     r4, r4, r7, r8
    orr     r4, r4, #1
    strd    r4, r6, [sp, #ENTRY]
    str     r5, [sp, #X_END]
    ldr     lr, [r0, #TILE_STREAM]
    mov     r0, #0x00010001
    movs    r2, #0
    movs    r3, #0
    /* One turn: the sums of four x of both pixels. */
.Lnarrow_sums:
    ldm     r1!, {r8-r11}
    smlad   r2, r8, r0, r2
    smlad   r3, r9, r0, r3
    smlad   r2, r10, r0, r2
    smlad   r3, r11, r0, r3
    cmp     r1, r5
    bne     .Lnarrow_sums
    subs    r3, r3, r2
    lsls    r2, r2, #4
    lsls    r3, r3, #4
    strd    r2, r3, [sp, #SUM]
    mov     r1, lr
    /* One turn: four channels. */
.Lnarrow_channels:
    ldr     r0, [sp, #X]
    ldr     r2, [sp, #FIRST]
    str     r2, [sp, #SPAN]
    movs    r4, #0
    movs    r5, #0
    strd    r4, r5, [sp, #TAKEN]
    movs    r6, #0
    movs    r7, #0
    mov     r8, r4
    mov     r9, r4
    mov     r10, r4
    mov     r11, r4
    ldr     pc, [sp, #ENTRY]
    .p2align 2
    /* One turn: eight products of both pixels and all four channels. */
.Lnarrow_products:
    .rept TURN / 2
    products
    .endr
    ldr     r2, [sp, #SPAN]
    cmp     r0, r2
    bne     .Lnarrow_products
    ldr     r2, [sp, #X_END]
    cmp     r0, r2
    bne     .Lnarrow_span
    ldm     r1!, {r0, r2, r3, lr}
    ldr     r12, [sp, #SUM]
    subs    r0, r0, r12
    subs    r2, r2, r12
    subs    r3, r3, r12
    apart   r4, r6, r8, r10
    ldr     r12, [sp, #SUM + 4]
    subs    r0, r0, r12
    subs    r2, r2, r12
    subs    r3, r3, r12
    apart   r5, r7, r9, r11
    ldrd    r0, r2, [sp, #TAKEN]
    add     r10, r10, r0
    add     r11, r11, r2
    ldr     r12, [sp, #OFFSET]
    scale_pair r4, r5, r6, r7
    scale_pair r8, r9, r10, r11
    join_bytes r4, r6, r8, r10
    join_bytes r5, r7, r9, r11
    ldr     r0, [sp, #CLAMP]
    ldr     r2, [sp, #STEP]
    ldr     r3, [sp, #OUT]
    ldr     r12, [sp, #LAST]
    cbnz    r0, .Lnarrow_clamp
    /* Here also from below, with outputs that are limited. */
.Lnarrow_store:
    add     r2, r2, r3
    subs    r12, r12, r3
    blt     .Lnarrow_few
#if defined(CORTADO_ALIGNED_ONLY)
    store_four r4, r3
    store_four r5, r2
    cmp     r12, #0
#else
    str     r4, [r3], #4
    str     r5, [r2]
#endif
    str     r3, [sp, #OUT]
    bne     .Lnarrow_channels
    /* Here also from below, after the last few channels. */
.Lnarrow_return:
    add     sp, sp, #FRAME
    pop     {r4-r11, pc}
.Lnarrow_clamp:
    ldr     r0, [sp, #LOW]
    ldr     r2, [sp, #HIGH]
    limit_bytes r4
    limit_bytes r5
    ldr     r2, [sp, #STEP]
    b       .Lnarrow_store
.Lnarrow_few:
    adds    r12, r12, #4
    /* One turn: one of the last one to three channels. */
.Lnarrow_byte:
    strb    r4, [r3], #1
    strb    r5, [r2], #1
    lsrs    r4, r4, #8
    lsrs    r5, r5, #8
    subs    r12, r12, #1
    bne     .Lnarrow_byte
    b       .Lnarrow_return
    /* The next span: sums d go on from 0. */
.Lnarrow_span:
    ldrd    r2, r3, [sp, #TAKEN]
    add     r12, r6, r8
    sub     r10, r10, r12
    add     r2, r2, r10, asr #11
    mov     r10, r12
    add     r12, r7, r9
    sub     r11, r11, r12
    add     r3, r3, r11, asr #11
    mov     r11, r12
    strd    r2, r3, [sp, #TAKEN]
    add     r2, r0, #4 * NARROW_SPAN
    str     r2, [sp, #SPAN]
    b       .Lnarrow_products
    .size   cortado_conv_narrow_s8__dsp, . - cortado_conv_narrow_s8__dsp

#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
