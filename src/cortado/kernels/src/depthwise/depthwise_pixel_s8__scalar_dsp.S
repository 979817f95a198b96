/* SPDX-License-Identifier: Apache-2.0
 *
 * All channels of one depthwise pixel, for cores without vector instructions: depthwise_pixel_s8.h.
 *
 *   void cortado_depthwise_pixel_s8(const cortado_depthwise_pixel_t *P, int8_t *out)
 *
 * Tile: 1 pixel x 4 channels. Scratch: none of its own; the taps are the kernel's.
 *
 * The stream, for each four channels a, b, c, d; the last four may overlap those before:
 *
 *   | biases 4 x 4 |
 *   | a b c d |              each tap
 *   | a a' b b' c c' d d' |  each two taps, on DSP cores instead; a tap that makes a pair whole has weights of zero
 *   | multiplier 4 | shifts 4 |  of a, of b, of c, of d: the words of cortado_asm.h
 */
#include "cortado_asm.h"
#include "depthwise_pixel_s8.h"

#if defined(__thumb__)

#if CORTADO_SMALL_CORE

/* ---- small --------------------------------------------------------------------------------------------------------
 *
 * While products are added:
 *   r0 taps   r1 stream   r2 one tap's four channels   r3 four weights   r4, r5 x and weight   r6, r7 2 and 3
 *   r8 to r11 sums   r12 first channel   lr end of the taps
 * While channels are scaled and stored:
 *   r0 sum   r1 to r3 free   r4, r5 signed lower and upper half of the multiplier   r6 next sum   r7 out
 *   r8 shift word   r9 offset   r10 low   r11 high   r12 2^14   lr stream
 */

/* Frame. */
#define SUMS 0     /* of four channels */
#define LAYER 16   /* P; where the sums end */
#define OUT 20
#define CHANNEL 24 /* the first of the four */
#define FRAME 28

    function CORTADO_ISA(cortado_depthwise_pixel_s8)
    push    {r4-r7, lr}
    mov     r4, r8
    mov     r5, r9
    mov     r6, r10
    mov     r7, r11
    push    {r4-r7}
    sub     sp, sp, #FRAME
    str     r0, [sp, #LAYER]
    str     r1, [sp, #OUT]
    movs    r2, #0
    str     r2, [sp, #CHANNEL]
    ldr     r1, [r0, #PIXEL_STREAM]
    /* One turn: four channels. */
.Lpixel_channels:
    ldr     r0, [sp, #LAYER]
    ldr     r2, [sp, #CHANNEL]
    mov     r12, r2
    ldr     r2, [r0, #PIXEL_TAPS_END]
    mov     lr, r2
    ldr     r0, [r0, #PIXEL_TAPS]
    ldmia   r1!, {r4-r7}
    mov     r8, r4
    mov     r9, r5
    mov     r10, r6
    mov     r11, r7
    movs    r6, #2
    movs    r7, #3
    /* One turn: one tap of four channels. */
.Lpixel_tap:
    ldmia   r0!, {r2}
    add     r2, r2, r12
    ldmia   r1!, {r3}
    ldrb    r4, [r2]
    sxtb    r4, r4
    sxtb    r5, r3
    muls    r4, r5, r4
    add     r8, r4
    ldrb    r4, [r2, #1]
    sxtb    r4, r4
    asrs    r3, r3, #8
    sxtb    r5, r3
    muls    r4, r5, r4
    add     r9, r4
    ldrsb   r4, [r2, r6]
    asrs    r3, r3, #8
    sxtb    r5, r3
    muls    r4, r5, r4
    add     r10, r4
    ldrsb   r4, [r2, r7]
    asrs    r3, r3, #8
    muls    r4, r3, r4
    add     r11, r4
    cmp     r0, lr
    bne     .Lpixel_tap
    mov     r2, r8
    mov     r3, r9
    mov     r4, r10
    mov     r5, r11
    mov     r6, sp
    stmia   r6!, {r2-r5}
    mov     lr, r1
    ldr     r0, [sp, #LAYER]
    adds    r0, r0, #PIXEL_OFFSET
    ldmia   r0!, {r1, r2, r3}
    mov     r9, r1
    mov     r10, r2
    mov     r11, r3
    movs    r1, #1
    lsls    r1, r1, #14
    mov     r12, r1
    ldr     r7, [sp, #OUT]
    ldr     r1, [sp, #CHANNEL]
    adds    r7, r7, r1
    mov     r6, sp
    /* One turn: one channel's sum to its output. */
.Lpixel_store:
    mov     r1, lr
    ldmia   r1!, {r4, r5}
    mov     lr, r1
    mov     r8, r5
    lsrs    r5, r4, #16
    sxth    r4, r4
    ldmia   r6!, {r0}
    output_small
    strb    r0, [r7]
    adds    r7, r7, #1
    add     r1, sp, #LAYER
    cmp     r6, r1
    bne     .Lpixel_store
    /* The next four channels, or the last four. */
    mov     r1, lr
    ldr     r0, [sp, #LAYER]
    ldr     r2, [r0, #PIXEL_CHANNELS]
    ldr     r3, [sp, #CHANNEL]
    adds    r3, r3, #4
    subs    r4, r2, r3
    beq     .Lpixel_return
    cmp     r4, #4
    bge     .Lpixel_four_left
    subs    r3, r2, #4
.Lpixel_four_left:
    str     r3, [sp, #CHANNEL]
    b       .Lpixel_channels
.Lpixel_return:
    add     sp, sp, #FRAME
    pop     {r4-r7}
    mov     r8, r4
    mov     r9, r5
    mov     r10, r6
    mov     r11, r7
    pop     {r4-r7, pc}
    .size   CORTADO_ISA(cortado_depthwise_pixel_s8), . - CORTADO_ISA(cortado_depthwise_pixel_s8)

#else

/* ---- long and DSP -------------------------------------------------------------------------------------------------
 *
 *   r0 taps, later a right shift   r1 stream   r2, r3 taps' four channels   r4 to r7 sums   r8, r9 weights, later
 *   factors   r10, r11 free, later offset and low   r12 first channel, later high   lr end of the taps
 */

/* Frame: what was passed, and a word more. */
#define LAYER 0   /* P */
#define OUT 4
#define CHANNEL 8 /* the first of the four; read with OUT */

    /* The factors of the next channel: r8 multiplier, r9 shift word, r0 right shift. */
    .macro next_factors
    ldrd    r8, r9, [r1], #8
    ubfx    r0, r9, #8, #5
    .endm

    function CORTADO_ISA(cortado_depthwise_pixel_s8)
    push    {r0-r2, r4-r11, lr}
    mov     r12, #0
    ldr     r1, [r0, #PIXEL_STREAM]
    /* One turn: four channels. */
.Lpixel_channels:
    str     r12, [sp, #CHANNEL]
    add     r0, r0, #PIXEL_TAPS
    ldm     r0, {r0, lr}
    ldm     r1!, {r4-r7}
#if defined(__ARM_FEATURE_DSP)
    /* One turn: two taps of four channels: the bytes of channels 0 and 1, then of 2 and 3, as pairs of halfwords. */
.Lpixel_taps:
    ldrd    r2, r3, [r0], #8
#if defined(CORTADO_ALIGNED_ONLY)
    add     r8, r2, r12
    add     r9, r3, r12
    load_four r2, r8, r10
    load_four r3, r9, r10
#else
    ldr     r2, [r2, r12]
    ldr     r3, [r3, r12]
#endif
    ldrd    r8, r9, [r1], #8
    pkhbt   r10, r2, r3, lsl #16
    pkhtb   r3, r3, r2, asr #16
    sxtb16  r2, r10
    sxtb16  r11, r8
    smlad   r4, r2, r11, r4
    sxtb16  r10, r10, ror #8
    sxtb16  r8, r8, ror #8
    smlad   r5, r10, r8, r5
    sxtb16  r2, r3
    sxtb16  r11, r9
    smlad   r6, r2, r11, r6
    sxtb16  r3, r3, ror #8
    sxtb16  r9, r9, ror #8
    smlad   r7, r3, r9, r7
#else
    /* One turn: one tap of four channels. */
.Lpixel_taps:
    ldr     r2, [r0], #4
    ldrsb   r8, [r1], #1
    add     r2, r2, r12
    ldrsb   r3, [r2]
    ldrsb   r9, [r1], #1
    mla     r4, r3, r8, r4
    ldrsb   r3, [r2, #1]
    ldrsb   r8, [r1], #1
    mla     r5, r3, r9, r5
    ldrsb   r3, [r2, #2]
    ldrsb   r9, [r1], #1
    mla     r6, r3, r8, r6
    ldrsb   r3, [r2, #3]
    mla     r7, r3, r9, r7
#endif
    cmp     r0, lr
    bne     .Lpixel_taps
    ldr     r2, [sp, #LAYER]
    add     r2, r2, #PIXEL_OFFSET
    ldm     r2, {r10, r11, r12}
    next_factors
    scale   r4
    next_factors
    scale   r5
    next_factors
    scale   r6
    next_factors
    scale   r7
    sub     r0, r12, r11
    ldrd    r2, r3, [sp, #OUT]
    add     r2, r2, r3
    cmp     r0, #255
    bne     .Lpixel_clamp
    ssat    r4, #8, r4
    ssat    r5, #8, r5
    ssat    r6, #8, r6
    ssat    r7, #8, r7
    b       .Lpixel_store
.Lpixel_clamp:
    limit   r4
    limit   r5
    limit   r6
    limit   r7
.Lpixel_store:
    strb    r4, [r2]
    strb    r5, [r2, #1]
    strb    r6, [r2, #2]
    strb    r7, [r2, #3]
    /* The next four channels, or the last four. */
    ldr     r0, [sp, #LAYER]
    add     r12, r3, #4
    ldr     r2, [r0, #PIXEL_CHANNELS]
    subs    r3, r2, r12
    beq     .Lpixel_return
    cmp     r3, #4
    it      lt
    sublt   r12, r2, #4
    b       .Lpixel_channels
.Lpixel_return:
    add     sp, sp, #12
    pop     {r4-r11, pc}
    .size   CORTADO_ISA(cortado_depthwise_pixel_s8), . - CORTADO_ISA(cortado_depthwise_pixel_s8)

#endif
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
