/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of kernels with the DSP instructions' lanes, for two rows of x and four channels: macros for the
 * assembly. Internal.
 */
#ifndef CORTADO_LANES_H
#define CORTADO_LANES_H

#include "cortado_asm.h"

#if defined(__thumb__) && defined(__ARM_FEATURE_DSP)

/* Two products of both rows and all four channels; 54 or 56 bytes of code. A halfword of the stream has two channels:
 * `widen`, SXTB16 or UXTB16, takes the lower byte out, which is multiplied once more. */
#define TURN 16 /* products of a turn */
#if CORTADO_DUAL_ISSUE
#define STEPS_BYTES 56
#define BEHIND 2 /* products behind the turns */
    .macro products widen, more=1
    smlad   r6, r2, r12, r6
    ldr     r3, [r0, #-4]
    ldr     lr, [r1, #-4]
    smlad   r7, r3, r12, r7
    \widen  r12, r12
    smlad   r10, r2, lr, r10
    smlad   r11, r3, lr, r11
    smlad   r5, r3, r12, r5
    \widen  lr, lr
    smlad   r4, r2, r12, r4
    smlad   r8, r2, lr, r8
    .if \more
    ldr.w   r2, [r0], #8
    ldr.w   r12, [r1], #8
    .endif
    smlad   r9, r3, lr, r9
    .endm
#else
#define STEPS_BYTES 54
#define BEHIND 0
    .macro products widen
    ldr.w   lr, [r1, #4]
    ldr.w   r12, [r1], #8
    ldr.n   r3, [r0, #4]
    ldr.w   r2, [r0], #8
    smlad   r6, r2, r12, r6
    smlad   r7, r3, r12, r7
    \widen  r12, r12
    smlad   r10, r2, lr, r10
    smlad   r11, r3, lr, r11
    \widen  lr, lr
    smlad   r4, r2, r12, r4
    smlad   r5, r3, r12, r5
    smlad   r8, r2, lr, r8
    smlad   r9, r3, lr, r9
    .endm
#endif

#endif
#endif /* CORTADO_LANES_H */
