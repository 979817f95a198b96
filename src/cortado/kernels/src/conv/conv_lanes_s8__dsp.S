/* SPDX-License-Identifier: Apache-2.0
 *
 * All output channels of one pixel or two with DSP instructions, two channels' weights in every halfword:
 * conv_lanes_s8__dsp.h.
 *
 *   const int8_t *cortado_conv_lanes_s8__dsp(const cortado_conv_tile_t *T, const void *x, int32_t pixels, int8_t *out)
 *
 * Tile: 2 pixels x 4 channels, an odd last one alone. Scratch: none of its own; x is the kernel's.
 *
 * A halfword of the stream is 256 * b + a, weights of channels a and b. One SMLAD with it adds to 256 * sum b + sum a,
 * one with its lower byte (SXTB16 takes two of them out at once) to sum a; what is left of the first is 256 * sum b.
 * That is exact, whatever wraps on the way, if sum b fits 24 bits in the end. So four sums of two pixels and two
 * channels take two words of x, one of weights and one instruction to unpack it, and nothing has to be sorted.
 *
 * The stream, for each four channels a, b, c, d; channels that make a four whole are zeros. (ba)[k] is the halfword of
 * product k of a and b:
 *
 *   | bias a 4 | 256 * bias b + bias a 4 | bias c 4 | 256 * bias d + bias c 4 |
 *   | (ba)[k] (ba)[k+2] | (dc)[k] (dc)[k+2] | (ba)[k+1] (ba)[k+3] | (dc)[k+1] (dc)[k+3] |  each four products
 *   | multiplier 4 | right shift 4, at least 1 |  of a, of b, of c, of d
 *
 * A core that issues two instructions at a time (CORTADO_DUAL_ISSUE) begins a multiply in every cycle: r2 and r12 are
 * loaded a step ahead, and the last step, which has none after it, stands behind the turns.
 *
 * While products are added:
 *   r0 x   r1 stream   r2, r3 a word of x of each pixel   r12, lr weights of a and b, of c and d
 *   r4, r5 sum a of both pixels   r6, r7 256 * sum b + sum a   r8, r9 sum c   r10, r11 256 * sum d + sum c
 * Then:
 *   r0, r2 and r3, lr multiplier and right shift of two channels   r12 output offset
 *   r4, r5 four outputs of each pixel as one word
 */
#include "conv_lanes_s8__dsp.h"
#include "cortado_lanes.h"

#if defined(__thumb__) && defined(__ARM_FEATURE_DSP)

/* Frame. */
#define LAST 0   /* the end of the channels of the first pixel, less 4 */
#define CLAMP 4  /* 0 if all of int8 is allowed */
#define STEP 8   /* to the second pixel, 0 if there is only one */
#define OUT 12
#define X 16
#define X_END 20
#define ENTRY 24 /* where the first turn over the products begins */
#define OFFSET 28
#define LOW 32   /* the least and the largest output, four times */
#define HIGH 36
#if CORTADO_DUAL_ISSUE
#define INNER 40 /* where ENTRY goes on */
#define FRAME 44
#else
#define FRAME 40
#endif

/* Two products of the only pixel and all four channels; 36 bytes of code. */
#define ONE_BYTES 36
#define ONE_TURN 8 /* products of a turn */
    .macro products_of_one
    ldr.w   lr, [r1, #4]
    ldr.w   r12, [r1], #8
    ldr.w   r2, [r0], #8
    smlad   r6, r2, r12, r6
    sxtb16  r12, r12
    smlad   r10, r2, lr, r10
    sxtb16  lr, lr
    smlad   r4, r2, r12, r4
    smlad   r8, r2, lr, r8
    .endm

/* Two channels of the only pixel, as below. */
    .macro scale_one a, b
    ldm     r1!, {r0, r2, r3, lr}
    subs    \b, \b, \a
    lsls    \a, \a, #1
    asrs    \b, \b, #7
    scale_right \a, r0, r2
    scale_right \b, r3, lr
    .endm

/* Two channels of both pixels: their sums apart and doubled, then scaled. */
    .macro scale_pair a0, a1, b0, b1
    ldm     r1!, {r0, r2, r3, lr}
    subs    \b0, \b0, \a0
    subs    \b1, \b1, \a1
    lsls    \a0, \a0, #1
    lsls    \a1, \a1, #1
    asrs    \b0, \b0, #7
    asrs    \b1, \b1, #7
    scale_right \a0, r0, r2
    scale_right \a1, r0, r2
    scale_right \b0, r3, lr
    scale_right \b1, r3, lr
    .endm

    function cortado_conv_lanes_s8__dsp
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
    /* The first turn has what is no whole turn. */
    add     r5, r1, r4, lsl #2
    rsb     r4, r4, #BEHIND
    and     r4, r4, #TURN - 1
    movs    r6, #STEPS_BYTES / 2
    adr     r7, .Llanes_products
    cmp     r2, #1
    bne     .Llanes_entry
#if CORTADO_DUAL_ISSUE
    subs    r4, r4, #BEHIND
#endif
    and     r4, r4, #ONE_TURN - 1
    movs    r6, #ONE_BYTES / 2
    adr     r7, .Llanes_one
.Llanes_entry:
    mla     r4, r4, r6, r7
    orr     r4, r4, #1
#if CORTADO_DUAL_ISSUE
    str     r4, [sp, #INNER]
    cmp     r2, #1
    beq     .Llanes_begin
    adr     r4, .Llanes_ahead
    orr     r4, r4, #1
.Llanes_begin:
#endif
    strd    r5, r4, [sp, #X_END]
    ldr     r1, [r0, #TILE_STREAM]
    /* One turn: four channels; every sum starts at its bias. */
.Llanes_channels:
    ldm     r1!, {r4, r6, r8, r10}
    ldrd    r0, r3, [sp, #X]
    mov     r5, r4
    mov     r7, r6
    mov     r9, r8
    mov     r11, r10
    ldr     pc, [sp, #ENTRY]
    .p2align 2
#if CORTADO_DUAL_ISSUE
    /* Here also from above: the first words, then the first turn, or what there is of it. */
.Llanes_ahead:
    ldr     r12, [r1], #8
    ldr     r2, [r0], #8
    ldr     pc, [sp, #INNER]
    .p2align 2
#endif
    /* One turn: sixteen products of both pixels and all four channels. */
.Llanes_products:
    .rept TURN / 2
    products sxtb16
    .endr
    ldr     r3, [sp, #X_END]
    cmp     r0, r3
    bne     .Llanes_products
#if CORTADO_DUAL_ISSUE
    products sxtb16, more=0
#endif
    ldr     r12, [sp, #OFFSET]
    scale_pair r4, r5, r6, r7
    scale_pair r8, r9, r10, r11
    join_bytes r4, r6, r8, r10
    join_bytes r5, r7, r9, r11
    /* Here also from below, with the outputs of the only pixel in both. */
.Llanes_joined:
    ldr     r0, [sp, #CLAMP]
    ldr     r2, [sp, #STEP]
    ldr     r3, [sp, #OUT]
    ldr     r12, [sp, #LAST]
    cbnz    r0, .Llanes_clamp
    /* Here also from below, with outputs that are limited. */
.Llanes_store:
    add     r2, r2, r3
    subs    r12, r12, r3
    blt     .Llanes_few
#if defined(CORTADO_ALIGNED_ONLY)
    store_four r4, r3
    store_four r5, r2
    cmp     r12, #0
#else
    str     r4, [r3], #4
    str     r5, [r2]
#endif
    str     r3, [sp, #OUT]
    bne     .Llanes_channels
    /* Here also from below, after the last few channels. */
.Llanes_return:
    mov     r0, r1
    add     sp, sp, #FRAME
    pop     {r4-r11, pc}
.Llanes_clamp:
    ldr     r0, [sp, #LOW]
    ldr     r2, [sp, #HIGH]
    limit_bytes r4
    limit_bytes r5
    ldr     r2, [sp, #STEP]
    b       .Llanes_store
.Llanes_few:
    adds    r12, r12, #4
    /* One turn: one of the last one to three channels. */
.Llanes_byte:
    strb    r4, [r3], #1
    strb    r5, [r2], #1
    lsrs    r4, r4, #8
    lsrs    r5, r5, #8
    subs    r12, r12, #1
    bne     .Llanes_byte
    b       .Llanes_return
    .p2align 2
    /* One turn: eight products of the only pixel and all four channels; r3 is the end of x. */
.Llanes_one:
    .rept ONE_TURN / 2
    products_of_one
    .endr
    cmp     r0, r3
    bne     .Llanes_one
    ldr     r12, [sp, #OFFSET]
    scale_one r4, r6
    scale_one r8, r10
    join_bytes r4, r6, r8, r10
    mov     r5, r4
    b       .Llanes_joined
    .size   cortado_conv_lanes_s8__dsp, . - cortado_conv_lanes_s8__dsp

#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
