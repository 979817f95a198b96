/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear layers with DSP instructions, without weights of -128: straight from the input, two channels' weights in every
 * halfword.
 *
 *   void cortado_linear_lanes_s8__dsp(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
 *                                     void *scratch)
 *
 * Tile: 1 pixel x 4 channels. Scratch: none.
 *
 * As in conv_lanes_s8__dsp.S, a halfword is 256 * b + a, and one SMLAD adds to 256 * sum b + sum a, another one to
 * sum a. Sums b are taken out after 512 products at most (and up to three behind the last whole four), which fit 24
 * bits in any case: a layer may be as deep as it likes.
 *
 * The stream, for each four channels a, b, c, d; channels that make a four whole are zeros. (ba)[k] is the halfword of
 * product k of a and b:
 *
 *   | bias a 4 | bias b 4 | bias c 4 | bias d 4 |
 *   | (ba)[k] (ba)[k+2] | (dc)[k] (dc)[k+2] | (ba)[k+1] (ba)[k+3] | (dc)[k+1] (dc)[k+3] |  each four products
 *   | multiplier 4 | right shift 4, at least 1 |  of a, of b, of c, of d
 *
 * While products are added:
 *   r0 x   r1 stream   r2 end of the run   r3, r12 even and odd x as halfwords   r8 to r11 weights   lr x behind fours
 *   r4 sum a   r5 256 * sum b + sum a   r6 sum c   r7 256 * sum d + sum c
 * Then:
 *   r0, r2; r3, r8; r9, r10; r11, lr multiplier and right shift of each channel   r12 output offset
 */
#include "cortado_asm.h"
#include "cortado_offsets.h"

#if defined(__thumb__) && defined(__ARM_FEATURE_DSP)

/* Frame. */
#define SUMS 0   /* b and d of the runs before */
#define LAST 8   /* the end of the channels, less 4 */
#define CLAMP 12 /* 0 if all of int8 is allowed */
#define OUT 16
#define X 20
#define ENTRY 24 /* where the first turn over the products begins */
#define RUN_END 28
#define X_END 32 /* of the whole fours */
#define FEW 36   /* products behind them */
#define OFFSET 40
#define LOW 44   /* the least and the largest output, four times */
#define HIGH 48
#define PIXELS 52 /* pixels left */
#define LAYER 56  /* L */
#define FRAME 60
#define RUN 512

/* Four products of every channel with the four x in r12; 72 bytes of code and their load. */
#define FOUR_BYTES (72 + LOAD_FOUR_BYTES)
#define TURN 8 /* products of a turn */
    .macro products
    ldr.w   r9, [r1, #4]
    ldr.w   r10, [r1, #8]
    ldr.w   r11, [r1, #12]
    ldr.w   r8, [r1], #16
    sxtb16  r3, r12
    sxtb16  r12, r12, ror #8
    smlad   r5, r8, r3, r5
    sxtb16  r8, r8
    smlad   r7, r9, r3, r7
    sxtb16  r9, r9
    smlad   r4, r8, r3, r4
    smlad   r6, r9, r3, r6
    smlad   r5, r10, r12, r5
    sxtb16  r10, r10
    smlad   r7, r11, r12, r7
    sxtb16  r11, r11
    smlad   r4, r10, r12, r4
    smlad   r6, r11, r12, r6
    .endm

/* What the runs have of an odd channel, beside the even one: r2 is where it is kept. */
    .macro take_out even, odd, at
    ldr     r2, [sp, #SUMS + \at]
    sub     \odd, \odd, \even
    add     \odd, r2, \odd, asr #8
    .endm

    function cortado_linear_lanes_s8__dsp
    push    {r4-r11, lr}
    sub     sp, sp, #FRAME
    str     r0, [sp, #LAYER]
    /* One turn: one pixel. */
.Llinear_pixel:
    str     r3, [sp, #PIXELS]
    strd    r2, r1, [sp, #OUT]
    ldrsb   r5, [r0, #CORTADO_CONV1X1_OUT_OFFSET]
    ldrsb   r6, [r0, #CORTADO_CONV1X1_OUT_OFFSET + 1]
    ldrsb   r7, [r0, #CORTADO_CONV1X1_OUT_OFFSET + 2]
    str     r5, [sp, #OFFSET]
    subs    r5, r7, r6
    subs    r5, r5, #255
    ldrd    r3, r4, [r0, #CORTADO_CONV1X1_IN_C]
    add     r4, r4, r2
    subs    r4, r4, #4
    strd    r4, r5, [sp, #LAST]
    uxtb    r6, r6
    uxtb    r7, r7
    mov     r4, #0x01010101
    muls    r6, r4, r6
    muls    r7, r4, r7
    strd    r6, r7, [sp, #LOW]
    /* The first run has what is no whole run, and its first turn what is no whole turn. */
    bic     r4, r3, #3
    sub     r5, r3, r4
    subs    r6, r4, #1
    ubfx    r6, r6, #0, #9
    adds    r6, r6, #1
    cmp     r4, #0
    it      eq
    moveq   r6, #0
    add     r6, r6, r1
    add     r4, r4, r1
    strd    r4, r5, [sp, #X_END]
    rsbs    r4, r3, #0
    add     r4, r4, r5
    and     r4, r4, #TURN - 1
    movs    r5, #FOUR_BYTES / 4
    adr     r7, .Llinear_products
    mla     r5, r4, r5, r7
    orr     r5, r5, #1
    strd    r5, r6, [sp, #ENTRY]
    ldr     r1, [r0, #CORTADO_CONV1X1_WEIGHTS]
    /* One turn: four channels; every sum starts at its bias. */
.Llinear_channels:
    ldm     r1!, {r4, r5, r6, r7}
    ldr     r0, [sp, #X]
    ldr     r2, [sp, #RUN_END]
    ldr     lr, [sp, #FEW]
    strd    r5, r7, [sp, #SUMS]
    mov     r5, r4
    mov     r7, r6
    cmp     r0, r2
    beq     .Llinear_few
    ldr     pc, [sp, #ENTRY]
    .p2align 2
    /* One turn: eight products of each channel. */
.Llinear_products:
    .rept TURN / 4 - 1
    load_four r12, r0, r3
    products
    .endr
    load_four r12, r0, r3
    /* Here also from below, with the last 1 to 3 x. */
.Llinear_four:
    products
    cmp     r0, r2
    bne     .Llinear_products
    ldr     r3, [sp, #X_END]
    cmp     r0, r3
    bne     .Llinear_run
.Llinear_few:
    cmp     lr, #0
    beq     .Llinear_finish
    mov     r12, #0
    /* One turn: one of the last 1 to 3 x, from the last to the first. */
.Llinear_byte:
    subs    lr, lr, #1
    ldrb    r3, [r0, lr]
    orr     r12, r3, r12, lsl #8
    bne     .Llinear_byte
    b       .Llinear_four
.Llinear_finish:
    take_out r4, r5, 0
    take_out r6, r7, 4
    ldr     r12, [sp, #OFFSET]
    ldm     r1!, {r0, r2, r3, r8-r11, lr}
    lsls    r4, r4, #1
    lsls    r5, r5, #1
    lsls    r6, r6, #1
    lsls    r7, r7, #1
    scale_right r4, r0, r2
    scale_right r5, r3, r8
    scale_right r6, r9, r10
    scale_right r7, r11, lr
    join_bytes r4, r5, r6, r7
    ldr     r0, [sp, #CLAMP]
    ldr     r3, [sp, #OUT]
    ldr     r12, [sp, #LAST]
    cbz     r0, .Llinear_store
    ldr     r0, [sp, #LOW]
    ldr     r2, [sp, #HIGH]
    limit_bytes r4
.Llinear_store:
    subs    r12, r12, r3
    blt     .Llinear_last
#if defined(CORTADO_ALIGNED_ONLY)
    store_four r4, r3
    cmp     r12, #0
#else
    str     r4, [r3], #4
#endif
    str     r3, [sp, #OUT]
    bne     .Llinear_channels
    b       .Llinear_next
.Llinear_last:
    adds    r12, r12, #4
    /* One turn: one of the last one to three channels. */
.Llinear_last_byte:
    strb    r4, [r3], #1
    lsrs    r4, r4, #8
    subs    r12, r12, #1
    bne     .Llinear_last_byte
.Llinear_next:
    ldr     r0, [sp, #LAYER]
    ldr     r1, [sp, #X]
    ldr     r4, [r0, #CORTADO_CONV1X1_IN_C]
    mov     r2, r3
    ldr     r3, [sp, #PIXELS]
    add     r1, r1, r4
    subs    r3, r3, #1
    bne     .Llinear_pixel
    add     sp, sp, #FRAME
    pop     {r4-r11, pc}
    /* The next run: sums b and d go on from 0. */
.Llinear_run:
    add     r12, r2, #RUN
    take_out r4, r5, 0
    take_out r6, r7, 4
    strd    r5, r7, [sp, #SUMS]
    mov     r2, r12
    mov     r5, r4
    mov     r7, r6
    b       .Llinear_products
    .size   cortado_linear_lanes_s8__dsp, . - cortado_linear_lanes_s8__dsp

#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
