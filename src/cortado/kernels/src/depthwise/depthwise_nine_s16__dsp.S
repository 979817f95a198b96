/* SPDX-License-Identifier: Apache-2.0
 *
 * All channels of one pixel under a window of nine taps, 16-bit codes, with DSP instructions: depthwise_pixel_s16.h.
 *
 *   void cortado_depthwise_nine_s16__dsp(const cortado_wide_pixel_t *P, int16_t *out)
 *
 * Tile: 1 pixel x 4 channels. Scratch: none of its own; the taps are the kernel's.
 *
 * The stream is described in depthwise_s16__dsp.c.
 *
 *   r0 taps   r1 stream   r2 bytes from a tap's pixel to the first two of four channels, r3 to the others   r12 out
 *   r4 to r7 sums   r8, r9 codes   r10, r11 weights; then two channels' factors in r8 to r11   lr the last r2
 */
#include "cortado_asm.h"
#include "depthwise_pixel_s16.h"

#if defined(__thumb__) && defined(__ARM_FEATURE_DSP) && !defined(CORTADO_ALIGNED_ONLY)

/* Frame. */
#define LOW 0   /* the least and the largest output, twice */
#define CLAMP 8 /* 0 if all of int16 is allowed */
#define FRAME 16

    .macro add_tap number
    ldr     r8, [r0, #4 * \number]
    ldrd    r10, r11, [r1], #8
    ldr     r9, [r8, r3]
    ldr     r8, [r8, r2]
    smlabb  r4, r8, r10, r4
    smlatt  r5, r8, r10, r5
    smlabb  r6, r9, r11, r6
    smlatt  r7, r9, r11, r7
    .endm

/* A sum to its output without limits: as in conv_tile_s16__dsp.S. */
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

/* Two outputs within the halves of r8 and r9; r10 is lost. */
    .macro limit_halves outputs
    ssub16  r10, \outputs, r8
    sel     \outputs, \outputs, r8
    ssub16  r10, r9, \outputs
    sel     \outputs, \outputs, r9
    .endm

    function cortado_depthwise_nine_s16__dsp
    push    {r4-r11, lr}
    sub     sp, sp, #FRAME
    mov     r12, r1
    ldrd    r4, r5, [r0, #16]
    subs    r6, r5, r4
    movw    r7, #65535
    subs    r6, r6, r7
    str     r6, [sp, #CLAMP]
    pkhbt   r4, r4, r4, lsl #16
    pkhbt   r5, r5, r5, lsl #16
    strd    r4, r5, [sp, #LOW]
    ldr     lr, [r0, #12]
    lsl     lr, lr, #1
    subs    lr, lr, #8
    ldrd    r0, r1, [r0]
    movs    r2, #0
    /* One turn: four channels. */
.Lnine_four:
    adds    r3, r2, #4
    ldm     r1!, {r4-r7}
    add_tap 0
    add_tap 1
    add_tap 2
    add_tap 3
    add_tap 4
    add_tap 5
    add_tap 6
    add_tap 7
    add_tap 8
    ldm     r1!, {r8-r11}
    scale_wide r4, r8, r9
    scale_wide r5, r10, r11
    ldm     r1!, {r8-r11}
    scale_wide r6, r8, r9
    scale_wide r7, r10, r11
    join_halves r4, r5
    ldr     r5, [sp, #CLAMP]
    join_halves r6, r7
    cbz     r5, .Lnine_store
    ldrd    r8, r9, [sp, #LOW]
    limit_halves r4
    limit_halves r6
.Lnine_store:
    str     r4, [r12, r2]
    str     r6, [r12, r3]
    cmp     r2, lr
    beq     .Lnine_done
    adds    r2, r2, #8
    cmp     r2, lr
    it      gt
    movgt   r2, lr /* the last four channels overlap those before */
    b       .Lnine_four
.Lnine_done:
    add     sp, sp, #FRAME
    pop     {r4-r11, pc}
    .size   cortado_depthwise_nine_s16__dsp, . - cortado_depthwise_nine_s16__dsp
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
