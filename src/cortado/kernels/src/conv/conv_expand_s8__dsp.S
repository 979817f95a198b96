/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of one pixel as halfwords for the inner loops of convolution with DSP instructions: conv_window_s8__dsp.h.
 *
 *   int32_t *cortado_conv_expand_s8__dsp(int32_t *to, const int8_t *x, int32_t n)
 *
 * Tile: 1 pixel x 16 bytes. Scratch: none of its own; `to` is the kernel's.
 *
 * Of each four bytes x[k .. k + 3], the words (x[k], x[k + 2]) and (x[k + 1], x[k + 3]), in every second word: those
 * between are the other pixel's. Bytes past the last of n are zeros, and not read. Returns where the next ones go.
 *
 *   r0 to   r1 x   r2 bytes left   r3, r5, r12, lr four bytes each, then two of them as halfwords, as r4 is
 */
#include "cortado_asm.h"

#if defined(__thumb__) && defined(__ARM_FEATURE_DSP)

    /* Four bytes to two words. */
    .macro widen bytes, at
    sxtb16  r4, \bytes
    str     r4, [r0, #\at]
    sxtb16  \bytes, \bytes, ror #8
    str     \bytes, [r0, #\at + 8]
    .endm

    function cortado_conv_expand_s8__dsp
    push    {r4, r5, lr}
    subs    r2, r2, #16
    blt     .Lexpand_few
#if defined(CORTADO_ALIGNED_ONLY)
    tst     r1, #3
    bne     .Lexpand_few
#endif
    /* One turn: sixteen bytes to eight words. */
.Lexpand_sixteen:
    ldr     r12, [r1, #4]
    ldr     r5, [r1, #8]
    ldr     lr, [r1, #12]
    ldr     r3, [r1], #16
    widen   r3, 0
    widen   r12, 16
    widen   r5, 32
    widen   lr, 48
    adds    r0, r0, #64
    subs    r2, r2, #16
    bge     .Lexpand_sixteen
.Lexpand_few:
    adds    r2, r2, #16
    beq     .Lexpand_return
#if !defined(CORTADO_ALIGNED_ONLY)
    cmp     r2, #8
    blt     .Lexpand_next
    ldr     r12, [r1, #4]
    ldr     r3, [r1], #8
    widen   r3, 0
    widen   r12, 16
    adds    r0, r0, #32
    subs    r2, r2, #8
    beq     .Lexpand_return
#endif
    /* One turn: four bytes to two words. */
.Lexpand_next:
    cmp     r2, #4
    blt     .Lexpand_last
    load_four r3, r1, r4
    subs    r2, r2, #4
    /* Here also from below, with the last four, of which the first 1 to 3 were bytes. */
.Lexpand_four:
    widen   r3, 0
    adds    r0, r0, #16
    cmp     r2, #0
    bne     .Lexpand_next
    pop     {r4, r5, pc}
.Lexpand_last:
    movs    r3, #0
    /* One turn: one of the last 1 to 3 bytes, from the last to the first. */
.Lexpand_byte:
    subs    r2, r2, #1
    ldrb    r4, [r1, r2]
    orr     r3, r4, r3, lsl #8
    bne     .Lexpand_byte
    b       .Lexpand_four
.Lexpand_return:
    pop     {r4, r5, pc}
    .size   cortado_conv_expand_s8__dsp, . - cortado_conv_expand_s8__dsp

#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
