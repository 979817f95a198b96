/* SPDX-License-Identifier: Apache-2.0
 *
 * All output channels of two pixels or of one, 16-bit codes and 8-bit weights, with DSP instructions:
 * conv_tile_s16__dsp.h.
 *
 *   const int8_t *cortado_conv_tile2_s16__dsp(const cortado_wide_tile_t *T, const void *x, int16_t *out)
 *   const int8_t *cortado_conv_tile1_s16__dsp(const cortado_wide_tile_t *T, const int16_t *x, int16_t *out)
 *
 * Tile: 2 pixels or 1 x 4 channels. Scratch: none of its own; x of two pixels is the kernel's.
 *
 * SXTB16 takes two weights of one channel out of a word, with a rotation two of another; SMLAD multiplies them with two
 * codes as they lie in memory. Sums fit 32 bits.
 *
 * The stream, for each four channels a, b, c, d; channels that make a four whole are zeros, and so is the weight behind
 * an odd last one:
 *
 *   | bias a 4 | bias b 4 | bias c 4 | bias d 4 |
 *   | a[k] b[k] a[k+1] b[k+1] | c[k] d[k] c[k+1] d[k+1] |  each two products
 *   | 2 * multiplier, modulo 2^32 4 | right shift 4, at least 1 |  of a, of b, of c, of d
 *
 * A multiplier is at least 2^30, so its double is negative as a signed word, 2^32 too small; SMMLAR, which adds the sum
 * itself to the upper word of the product, makes up for it: no bit of a sum has to be free for the doubling.
 *
 * While products are added:
 *   r0 x   r1 stream
 *   two pixels: r2, r3 two codes of each   r12, lr weights   r4, r5 sums of a; r6, r7 of b; r8, r9 of c; r10, r11 of d
 *   one pixel:  r2, r3 four codes   r8 to r11, r12 weights   r4 to r7 sums of a to d   lr end of x
 */
#include "conv_tile_s16__dsp.h"
#include "cortado_asm.h"

#if defined(__thumb__) && defined(__ARM_FEATURE_DSP)

/* Frame. */
#define LAST 0 /* the end of the channels of the first pixel, less 8 */
#define CLAMP 4 /* 0 if all of int16 is allowed */
#define STEP 8 /* to the second pixel */
#define OUT 12
#define X 16
#define ENTRY 20 /* where the first turn over the products begins */
#define X_END 24
#define LOW 28 /* the least and the largest output, twice */
#define HIGH 32
#define FRAME 36
#define TURN 8 /* products of a turn */

    .macro enter
    push    {r4-r11, lr}
    sub     sp, sp, #FRAME
    strd    r2, r1, [sp, #OUT]
    add     r12, r0, #TILE_DEPTH
    ldm     r12, {r4-r8}
    subs    r9, r8, r7
    movw    r10, #65535
    subs    r9, r9, r10
    strd    r9, r6, [sp, #CLAMP]
    pkhbt   r7, r7, r7, lsl #16
    pkhbt   r8, r8, r8, lsl #16
    strd    r7, r8, [sp, #LOW]
    add     r5, r2, r5, lsl #1
    subs    r5, r5, #8
    str     r5, [sp, #LAST]
    .endm

/* A sum to its output without limits. */
    .macro scale_wide acc, multiplier, shift
    smmlar  \acc, \acc, \multiplier, \acc
    add     \acc, \acc, \acc, asr #31
    asrs    \acc, \acc, \shift
    adc     \acc, \acc, #0
    .endm

/* Two outputs as the halves of the first's register. */
    .macro join_halves a, b
    ssat    \a, #16, \a
    ssat    \b, #16, \b
    pkhbt   \a, \a, \b, lsl #16
    .endm

/* Two outputs within the halves of r0 and r2; lr is lost. */
    .macro limit_halves outputs
    ssub16  lr, \outputs, r0
    sel     \outputs, \outputs, r0
    ssub16  lr, r2, \outputs
    sel     \outputs, \outputs, r2
    .endm

/* Four outputs to any address that halfwords may have, and the address after them; \a and \b may be lost. */
    .macro store_halves a, b, to
#if defined(CORTADO_ALIGNED_ONLY)
    strh    \a, [\to], #2
    lsr     \a, \a, #16
    strh    \a, [\to], #2
    strh    \b, [\to], #2
    lsr     \b, \b, #16
    strh    \b, [\to], #2
#else
    str     \b, [\to, #4]
    str     \a, [\to], #8
#endif
    .endm

/* Two products of both pixels and all four channels; 62 bytes of code. */
#define STEPS_BYTES 62
    .macro products
    ldr.w   r12, [r1], #8
    ldr.n   r3, [r0, #4]
    ldr.w   r2, [r0], #8
    sxtb16  lr, r12
    smlad   r4, r2, lr, r4
    smlad   r5, r3, lr, r5
    sxtb16  r12, r12, ror #8
    ldr     lr, [r1, #-4]
    smlad   r6, r2, r12, r6
    smlad   r7, r3, r12, r7
    sxtb16  r12, lr
    smlad   r8, r2, r12, r8
    smlad   r9, r3, r12, r9
    sxtb16  lr, lr, ror #8
    smlad   r10, r2, lr, r10
    smlad   r11, r3, lr, r11
    .endm

    function cortado_conv_tile2_s16__dsp
    enter
    /* The first turn has what is no whole turn. */
    adds    r4, r4, #1
    bic     r4, r4, #1
    add     r5, r1, r4, lsl #2
    rsbs    r4, r4, #0
    and     r4, r4, #TURN - 1
    movs    r6, #STEPS_BYTES / 2
    adr     r7, .Lwide_products
    mla     r4, r4, r6, r7
    orr     r4, r4, #1
    strd    r4, r5, [sp, #ENTRY]
    ldr     r1, [r0, #TILE_STREAM]
    /* One turn: four channels; every sum starts at its bias. */
.Lwide_channels:
    ldm     r1!, {r4, r6, r8, r10}
    ldr     r0, [sp, #X]
    mov     r5, r4
    mov     r7, r6
    mov     r9, r8
    mov     r11, r10
    ldr     pc, [sp, #ENTRY]
    .p2align 2
    /* One turn: eight products of both pixels and all four channels. */
.Lwide_products:
    .rept TURN / 2
    products
    .endr
    ldr     r2, [sp, #X_END]
    cmp     r0, r2
    bne     .Lwide_products
    ldm     r1!, {r0, r2, r3, lr}
    scale_wide r4, r0, r2
    scale_wide r5, r0, r2
    scale_wide r6, r3, lr
    scale_wide r7, r3, lr
    ldm     r1!, {r0, r2, r3, lr}
    scale_wide r8, r0, r2
    scale_wide r9, r0, r2
    scale_wide r10, r3, lr
    scale_wide r11, r3, lr
    join_halves r4, r6
    join_halves r8, r10
    join_halves r5, r7
    join_halves r9, r11
    ldr     r0, [sp, #CLAMP]
    ldrd    r2, r3, [sp, #STEP]
    ldr     r12, [sp, #LAST]
    cbnz    r0, .Lwide_clamp
    /* Here also from below, with outputs that are limited. */
.Lwide_store:
    add     r2, r2, r3
    subs    r12, r12, r3
    blt     .Lwide_few
    store_halves r4, r8, r3
    store_halves r5, r9, r2
    str     r3, [sp, #OUT]
    cmp     r12, #0
    bne     .Lwide_channels
    /* Here also from below, after the last few channels. */
.Lwide_return:
    mov     r0, r1
    add     sp, sp, #FRAME
    pop     {r4-r11, pc}
.Lwide_clamp:
    ldr     r0, [sp, #LOW]
    ldr     r2, [sp, #HIGH]
    limit_halves r4
    limit_halves r5
    limit_halves r8
    limit_halves r9
    ldr     r2, [sp, #STEP]
    b       .Lwide_store
.Lwide_few:
    /* The last one to three channels; r12 is -6, -4 or -2. */
    strh    r4, [r3]
    strh    r5, [r2]
    adds    r12, r12, #6
    beq     .Lwide_return
    lsrs    r4, r4, #16
    lsrs    r5, r5, #16
    strh    r4, [r3, #2]
    strh    r5, [r2, #2]
    subs    r12, r12, #2
    beq     .Lwide_return
    strh    r8, [r3, #4]
    strh    r9, [r2, #4]
    b       .Lwide_return
    .size   cortado_conv_tile2_s16__dsp, . - cortado_conv_tile2_s16__dsp

/* Two products of all four channels with the codes in r2; 40 bytes of code and their load. */
#if defined(CORTADO_ALIGNED_ONLY)
#define PAIR_BYTES 52
#else
#define PAIR_BYTES 44
#endif
    .macro two_codes
#if defined(CORTADO_ALIGNED_ONLY)
    ldrh.w  r2, [r0], #2
    ldrh.w  r10, [r0], #2
    orr.w   r2, r2, r10, lsl #16
#else
    ldr.w   r2, [r0], #4
#endif
    .endm

    .macro pixel_products
    ldr.w   r9, [r1, #4]
    ldr.w   r8, [r1], #8
    sxtb16  r10, r8
    sxtb16  r8, r8, ror #8
    smlad   r4, r2, r10, r4
    smlad   r5, r2, r8, r5
    sxtb16  r11, r9
    sxtb16  r9, r9, ror #8
    smlad   r6, r2, r11, r6
    smlad   r7, r2, r9, r7
    .endm

    function cortado_conv_tile1_s16__dsp
    enter
    and     r6, r4, #1
    str     r6, [sp, #STEP] /* whether a last product is alone */
    subs    r4, r4, r6
    add     r5, r1, r4, lsl #1
    rsbs    r4, r4, #0
    and     r4, r4, #TURN - 1
    movs    r6, #PAIR_BYTES / 2
    adr     r7, .Lpixel_products
    mla     r4, r4, r6, r7
    orr     r4, r4, #1
    strd    r4, r5, [sp, #ENTRY]
    ldr     r1, [r0, #TILE_STREAM]
    /* One turn: four channels; every sum starts at its bias. */
.Lpixel_channels:
    ldm     r1!, {r4-r7}
    ldr     r0, [sp, #X]
    ldr     lr, [sp, #X_END]
    ldr     r3, [sp, #STEP]
    cmp     r0, lr
    beq     .Lpixel_last
    ldr     pc, [sp, #ENTRY]
    .p2align 2
    /* One turn: eight products of all four channels. */
.Lpixel_products:
    .rept TURN / 2 - 1
    two_codes
    pixel_products
    .endr
    two_codes
    /* Here also from below, with the last code alone. */
.Lpixel_pair:
    pixel_products
    cmp     r0, lr
    bne     .Lpixel_products
    cbz     r3, .Lpixel_finish
    /* Here also from above, where there is one product. */
.Lpixel_last:
    movs    r3, #0
    ldrh    r2, [r0]
    b       .Lpixel_pair
.Lpixel_finish:
    ldm     r1!, {r0, r2, r3, r8-r11, lr}
    scale_wide r4, r0, r2
    scale_wide r5, r3, r8
    scale_wide r6, r9, r10
    scale_wide r7, r11, lr
    join_halves r4, r5
    join_halves r6, r7
    ldr     r0, [sp, #CLAMP]
    ldr     r3, [sp, #OUT]
    ldr     r12, [sp, #LAST]
    cbz     r0, .Lpixel_store
    ldr     r0, [sp, #LOW]
    ldr     r2, [sp, #HIGH]
    limit_halves r4
    limit_halves r6
.Lpixel_store:
    subs    r12, r12, r3
    blt     .Lpixel_few
    store_halves r4, r6, r3
    str     r3, [sp, #OUT]
    cmp     r12, #0
    bne     .Lpixel_channels
    /* Here also from below, after the last few channels. */
.Lpixel_return:
    mov     r0, r1
    add     sp, sp, #FRAME
    pop     {r4-r11, pc}
.Lpixel_few:
    /* The last one to three channels; r12 is -6, -4 or -2. */
    strh    r4, [r3]
    adds    r12, r12, #6
    beq     .Lpixel_return
    lsrs    r4, r4, #16
    strh    r4, [r3, #2]
    subs    r12, r12, #2
    beq     .Lpixel_return
    strh    r6, [r3, #4]
    b       .Lpixel_return
    .size   cortado_conv_tile1_s16__dsp, . - cortado_conv_tile1_s16__dsp

#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
