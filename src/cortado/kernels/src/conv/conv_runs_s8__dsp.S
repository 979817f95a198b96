/* SPDX-License-Identifier: Apache-2.0
 *
 * All output channels of one pixel or two with DSP instructions and 4-bit weights that have a factor for each run of 32
 * products: conv_narrow_s8__dsp.h.
 *
 *   void cortado_conv_runs_s8__dsp(const cortado_conv_tile_t *T, void *x, int32_t pixels, int8_t *out)
 *
 * Tile: 2 pixels x 4 channels. Scratch: none of its own; x is the kernel's.
 *
 * Halfwords of weights and what is done with them are those of conv_narrow_s8__dsp.S. After each run sums are taken
 * apart and added, times their factors, to totals.
 *
 * The stream, for each four channels; channels that make a four whole are zeros, products a multiple of 8:
 *
 *   | bias a 4 | bias b 4 | bias c 4 | bias d 4 |
 *   | factors of a, b, c, d, each less 3 in four bits: 2 for each run |, a multiple of 4
 *   | (dcba)[k] (dcba)[k+2] | (dcba)[k+1] (dcba)[k+3] |  each four products
 *   | multiplier 4 | right shift 4, at least 1 |  of a, of b, of c, of d
 *
 * While products are added:
 *   r0 x   r1 stream   r2, r3 a word of x of each pixel   r12 weights   lr some of their bits
 *   r4, r5 A of both pixels   r6, r7 G   r8, r9 C   r10, r11 F
 */
#include "conv_narrow_s8__dsp.h"
#include "cortado_asm.h"

#if defined(__thumb__) && defined(__ARM_FEATURE_DSP)

/* Frame. */
#define LAST 0    /* the end of the channels of the first pixel, less 4 */
#define CLAMP 4   /* 0 if all of int8 is allowed */
#define STEP 8    /* to the second pixel, 0 if there is only one: its inputs are the first one's */
#define OUT 12
#define X 16
#define X_END 20
#define RUN_END 24
#define OFFSET 28
#define LOW 32    /* the least and the largest output, four times */
#define HIGH 36
#define SUMS 40   /* where 8 * sum x of both pixels in the next run is */
#define FACTORS 44
#define BYTES 48  /* of a four's factors */
#define TOTALS 56 /* of a, b, c, d, each of both pixels */
#define FRAME 88
#define RUN_BYTES 128 /* of x of both pixels */

/* Two products of both pixels and all four channels. */
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

/* The sums of one pixel apart; \eights is 8 * sum x. */
    .macro apart a, b, c, d, eights
    sub     \d, \d, \b
    sub     \d, \d, \c
    sub     \b, \b, \a
    asr     \d, \d, #12
    sub     \a, \a, \eights
    rsb     \b, \eights, \b, asr #4
    rsb     \c, \eights, \c, asr #8
    .endm

/* A channel's sums of a run, times its factor, from bit \bit of r3 on, to its totals. */
    .macro weigh first, second, bit, at
    ubfx    lr, r3, #\bit, #4
    add     lr, lr, #3
    ldrd    r2, r12, [sp, #TOTALS + \at]
    mla     r2, \first, lr, r2
    mla     r12, \second, lr, r12
    strd    r2, r12, [sp, #TOTALS + \at]
    .endm

/* Two channels of both pixels, from their totals. */
    .macro scale_pair a0, a1, b0, b1, at
    ldrd    \a0, \a1, [sp, #TOTALS + \at]
    ldrd    \b0, \b1, [sp, #TOTALS + \at + 8]
    ldm     r1!, {r0, r2, r3, lr}
    lsls    \a0, \a0, #1
    lsls    \a1, \a1, #1
    lsls    \b0, \b0, #1
    lsls    \b1, \b1, #1
    scale_right \a0, r0, r2
    scale_right \a1, r0, r2
    scale_right \b0, r3, lr
    scale_right \b1, r3, lr
    .endm

    function cortado_conv_runs_s8__dsp
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
    add     r5, r1, r4, lsl #2
    str     r5, [sp, #X_END]
    adds    r4, r4, #63
    lsrs    r4, r4, #6
    lsls    r4, r4, #2
    str     r4, [sp, #BYTES]
    ldr     r4, [r0, #TILE_STREAM]
    mov     r0, #0x00010001
    mov     r12, r5
    /* One turn: the sums of a run's x of both pixels. */
.Lruns_sums:
    add     r6, r1, #RUN_BYTES
    cmp     r6, r5
    it      hi
    movhi   r6, r5
    movs    r2, #0
    movs    r3, #0
    /* One turn: four x of both pixels. */
.Lruns_sum:
    ldm     r1!, {r8-r11}
    smlad   r2, r8, r0, r2
    smlad   r3, r9, r0, r3
    smlad   r2, r10, r0, r2
    smlad   r3, r11, r0, r3
    cmp     r1, r6
    bne     .Lruns_sum
    lsls    r2, r2, #3
    lsls    r3, r3, #3
    strd    r2, r3, [r12], #8
    cmp     r1, r5
    bne     .Lruns_sums
    mov     r1, r4
    /* One turn: four channels; every total starts at its bias. */
.Lruns_channels:
    ldm     r1!, {r4-r7}
    strd    r4, r4, [sp, #TOTALS]
    strd    r5, r5, [sp, #TOTALS + 8]
    strd    r6, r6, [sp, #TOTALS + 16]
    strd    r7, r7, [sp, #TOTALS + 24]
    ldr     r2, [sp, #BYTES]
    ldr     r3, [sp, #X_END]
    ldr     r0, [sp, #X]
    str     r1, [sp, #FACTORS]
    str     r3, [sp, #SUMS]
    add     r1, r1, r2
    /* One turn: one run. */
.Lruns_run:
    add     r2, r0, #RUN_BYTES
    cmp     r2, r3
    it      hi
    movhi   r2, r3
    str     r2, [sp, #RUN_END]
    movs    r4, #0
    movs    r5, #0
    movs    r6, #0
    movs    r7, #0
    mov     r8, r4
    mov     r9, r4
    mov     r10, r4
    mov     r11, r4
    /* One turn: eight products of both pixels and all four channels. */
.Lruns_products:
    .rept 4
    products
    .endr
    ldr     r2, [sp, #RUN_END]
    cmp     r0, r2
    bne     .Lruns_products
    ldr     r2, [sp, #SUMS]
    ldrd    r12, lr, [r2], #8
    str     r2, [sp, #SUMS]
    apart   r4, r6, r8, r10, r12
    apart   r5, r7, r9, r11, lr
    ldr     r2, [sp, #FACTORS]
    ldrh    r3, [r2], #2
    str     r2, [sp, #FACTORS]
    weigh   r4, r5, 0, 0
    weigh   r6, r7, 4, 8
    weigh   r8, r9, 8, 16
    weigh   r10, r11, 12, 24
    ldr     r3, [sp, #X_END]
    cmp     r0, r3
    bne     .Lruns_run
    ldr     r12, [sp, #OFFSET]
    scale_pair r4, r5, r6, r7, 0
    scale_pair r8, r9, r10, r11, 16
    join_bytes r4, r6, r8, r10
    join_bytes r5, r7, r9, r11
    ldr     r0, [sp, #CLAMP]
    ldr     r2, [sp, #STEP]
    ldr     r3, [sp, #OUT]
    ldr     r12, [sp, #LAST]
    cbnz    r0, .Lruns_clamp
    /* Here also from below, with outputs that are limited. */
.Lruns_store:
    add     r2, r2, r3
    subs    r12, r12, r3
    blt     .Lruns_few
#if defined(CORTADO_ALIGNED_ONLY)
    store_four r4, r3
    store_four r5, r2
    cmp     r12, #0
#else
    str     r4, [r3], #4
    str     r5, [r2]
#endif
    str     r3, [sp, #OUT]
    bne     .Lruns_channels
    /* Here also from below, after the last few channels. */
.Lruns_return:
    add     sp, sp, #FRAME
    pop     {r4-r11, pc}
.Lruns_clamp:
    ldr     r0, [sp, #LOW]
    ldr     r2, [sp, #HIGH]
    limit_bytes r4
    limit_bytes r5
    ldr     r2, [sp, #STEP]
    b       .Lruns_store
.Lruns_few:
    adds    r12, r12, #4
    /* One turn: one of the last one to three channels. */
.Lruns_byte:
    strb    r4, [r3], #1
    strb    r5, [r2], #1
    lsrs    r4, r4, #8
    lsrs    r5, r5, #8
    subs    r12, r12, #1
    bne     .Lruns_byte
    b       .Lruns_return
    .size   cortado_conv_runs_s8__dsp, . - cortado_conv_runs_s8__dsp

#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
