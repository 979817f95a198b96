/* SPDX-License-Identifier: Apache-2.0
 *
 * Macros for the assembly files. Internal.
 *
 * A channel's factors are two words. The multiplier: on small cores as two signed halves. The shift word: the left
 * shift in its lowest byte (one more where a long multiply's upper word is used), the right shift in the next one and,
 * if there is a right shift, the sign bit.
 *
 * Rounding ties away from zero: a negative value with a right shift is decremented, then the carry of the shift is the
 * bit to round up by. Without a right shift the decrement is an addition of 0, which clears the carry.
 */
#include "cortado_endian.h"

#if defined(__arm__) && !defined(__thumb__)
#error "assemble this file with the core's flags, such as -mcpu=cortex-m4 -mthumb (CMake: CMAKE_ASM_FLAGS)"
#endif

#include "cortado_isa.h"

/* Whether the core issues two instructions at a time and has no vectors: of Armv7E-M, only an M7 has double precision.
 * One without it runs the code for one at a time. */
#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP) && (__ARM_FP & 8)
#define CORTADO_DUAL_ISSUE 1
#else
#define CORTADO_DUAL_ISSUE 0
#endif

#if defined(__thumb__)
    .syntax unified
    .thumb

    .macro function name
    .section .text.\name, "ax", %progbits
    .global \name
    .type   \name, %function
    .p2align 2
    .thumb_func
\name:
    .endm

#if !CORTADO_SMALL_CORE

/* Four bytes from any address, and the address after them: 4 bytes of code. Where accesses are aligned it is 40, and
 * the flags and \free are lost. */
#if defined(CORTADO_ALIGNED_ONLY)
#define LOAD_FOUR_BYTES 40
#else
#define LOAD_FOUR_BYTES 4
#endif
    .macro load_four to, from, free
#if defined(CORTADO_ALIGNED_ONLY)
    tst.w   \from, #3
    bne.n   .Lload_bytes_\@
    ldr.w   \to, [\from], #4
    b.n     .Lloaded_\@
.Lload_bytes_\@:
    ldrb.w  \to, [\from], #1
    ldrb.w  \free, [\from], #1
    orr.w   \to, \to, \free, lsl #8
    ldrb.w  \free, [\from], #1
    orr.w   \to, \to, \free, lsl #16
    ldrb.w  \free, [\from], #1
    orr.w   \to, \to, \free, lsl #24
.Lloaded_\@:
#else
    ldr.w   \to, [\from], #4
#endif
    .endm

#if defined(CORTADO_ALIGNED_ONLY)
/* Four bytes to any address, and the address after them; the flags and \four are lost. */
    .macro store_four four, to
    tst     \to, #3
    bne     .Lstore_bytes_\@
    str     \four, [\to], #4
    b       .Lstored_\@
.Lstore_bytes_\@:
    strb    \four, [\to], #1
    lsr     \four, \four, #8
    strb    \four, [\to], #1
    lsr     \four, \four, #8
    strb    \four, [\to], #1
    lsr     \four, \four, #8
    strb    \four, [\to], #1
.Lstored_\@:
    .endm
#endif

#endif

#if CORTADO_SMALL_CORE

/* Scales r0. r4 and r5 the signed lower and upper half of the multiplier, r8 shift word, r9 offset, r12 2^14; r1 to r3
 * are lost. Four 16-bit products: see cortado_mul_high. */
    .macro scale_small
    mov     r1, r8
    lsls    r0, r0, r1
    sxth    r1, r0
    asrs    r2, r0, #15
    adds    r2, r2, #1
    asrs    r2, r2, #1
    movs    r3, r1
    muls    r3, r4, r3
    asrs    r3, r3, #16
    muls    r1, r5, r1
    adds    r3, r3, r1
    movs    r1, r2
    muls    r1, r4, r1
    adds    r3, r3, r1
    add     r3, r12
    asrs    r3, r3, #15
    muls    r2, r5, r2
    lsls    r2, r2, #1
    adds    r0, r2, r3
    mov     r2, r8
    lsrs    r1, r2, #8
    ands    r2, r2, r0
    asrs    r2, r2, #31
    adds    r0, r0, r2
    asrs    r0, r0, r1
    mov     r1, r9
    adcs    r0, r0, r1
    .endm

/* Scales r0 and limits it to [r10, r11]. What is not positive is the lowest output where that is the offset, as after a
 * ReLU: about half of all sums. */
    .macro output_small
    cmp     r0, #0
    bgt     .Lscale_\@
    cmp     r9, r10
    bne     .Lscale_\@
    mov     r0, r10
    b       .Llimited_\@
.Lscale_\@:
    scale_small
    cmp     r0, r10
    bge     .Lnot_below_\@
    mov     r0, r10
.Lnot_below_\@:
    cmp     r0, r11
    ble     .Llimited_\@
    mov     r0, r11
.Llimited_\@:
    .endm

#else

/* Scales \acc and adds \offset. r8 multiplier, r9 shift word, r0 right shift; lr is lost. */
    .macro scale acc, offset=r10
    lsl     \acc, \acc, r9
#if defined(__ARM_FEATURE_DSP)
    smmulr  \acc, \acc, r8
#else
    smull   lr, \acc, \acc, r8
    lsls    lr, lr, #1
    adc     \acc, \acc, #0
#endif
    and     lr, \acc, r9
    adds    \acc, \acc, lr, asr #31
    asrs    \acc, \acc, r0
    adc     \acc, \acc, \offset
    .endm

    .macro limit acc
    cmp     \acc, r11
    it      lt
    movlt   \acc, r11
    cmp     \acc, r12
    it      gt
    movgt   \acc, r12
    .endm

#if defined(__ARM_FEATURE_DSP)

/* A doubled sum to its output without limits, by a right shift of at least 1. r12 offset. */
    .macro scale_right acc, multiplier, shift
    smmulr  \acc, \acc, \multiplier
    add     \acc, \acc, \acc, asr #31
    asrs    \acc, \acc, \shift
    adc     \acc, \acc, r12
    .endm

/* Four outputs to the bytes of the first's register. */
    .macro join_bytes a, b, c, d
    ssat    \a, #8, \a
    ssat    \b, #8, \b
    ssat    \c, #8, \c
    ssat    \d, #8, \d
    bfi     \a, \b, #8, #8
    bfi     \a, \c, #16, #8
    bfi     \a, \d, #24, #8
    .endm

/* Four outputs within the bytes of r0 and r2, all at once; lr is lost. */
    .macro limit_bytes outputs
    ssub8   lr, \outputs, r0
    sel     \outputs, \outputs, r0
    ssub8   lr, r2, \outputs
    sel     \outputs, \outputs, r2
    .endm

#endif

#endif

#endif
