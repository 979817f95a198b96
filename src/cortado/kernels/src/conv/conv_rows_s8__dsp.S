/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of one window as bytes behind one another, for the inner loops of convolution with DSP instructions:
 * conv_window_s8__dsp.h.
 *
 *   void cortado_conv_rows_s8__dsp(int8_t *to, const int8_t *const rows[], int32_t from, int32_t n, int32_t count)
 *
 * Tile: 1 row of one window. Scratch: none of its own; `to` is the kernel's.
 *
 * n bytes of each of `count` rows, from its byte `from` on. Words at any address: the last one of a row ends where the
 * row ends, and may hold bytes that the word before it has too. Nothing past a row is read or written.
 *
 *   r0 to   r1 rows   r2 from   r3 from a row to its last word   r4 rows left   r5 source   r6, r7, r8 words
 *   r9 words before the last one   r10 what is left of a row behind them   r12 words left
 *
 *   void cortado_conv_nines_s8__dsp(int32_t *x, const int8_t *const rows[], int32_t from, int32_t step)
 *
 * Three rows of nine bytes (a 3x3 window over three channels) of two pixels, `step` bytes apart, as halfwords: 27 bytes
 * and a zero, four of them at a time out of the words in which they lie.
 *
 *   r0 x   r3 step   r4, r5, r6 the rows   r1, r2, r7, r12 bytes   r8 pixels left   lr halfwords
 */
#include "cortado_asm.h"

#if defined(__thumb__) && defined(__ARM_FEATURE_DSP) && !defined(CORTADO_ALIGNED_ONLY)

    function cortado_conv_rows_s8__dsp
    push    {r4-r10, lr}
    ldr     r4, [sp, #32]
    subs    r3, r3, #4
    blt     .Lrows_few
    adds    r9, r3, #3
    lsrs    r9, r9, #2
    adds    r10, r3, #4
    sub     r10, r10, r9, lsl #2
    /* One turn: one row. */
.Lrows_next:
    ldr     r5, [r1], #4
    adds    r5, r5, r2
    ldr     r8, [r5, r3]
    str     r8, [r0, r3]
    movs    r12, r9
    beq     .Lrows_end
    /* One turn: four bytes. */
.Lrows_word:
    ldr     r6, [r5], #4
    subs    r12, r12, #1
    str     r6, [r0], #4
    bne     .Lrows_word
.Lrows_end:
    add     r0, r0, r10
    subs    r4, r4, #1
    bne     .Lrows_next
    pop     {r4-r10, pc}
.Lrows_few:
    adds    r3, r3, #4
    /* One turn: one row of 1 to 3 bytes. */
.Lrows_bytes:
    ldr     r5, [r1], #4
    adds    r5, r5, r2
    mov     r12, r3
    /* One turn: one byte. */
.Lrows_byte:
    ldrb    r6, [r5], #1
    subs    r12, r12, #1
    strb    r6, [r0], #1
    bne     .Lrows_byte
    subs    r4, r4, #1
    bne     .Lrows_bytes
    pop     {r4-r10, pc}
    .size   cortado_conv_rows_s8__dsp, . - cortado_conv_rows_s8__dsp

    /* Four bytes to two words; lr is lost. */
    .macro widen bytes, at
    sxtb16  lr, \bytes
    str     lr, [r0, #\at]
    sxtb16  \bytes, \bytes, ror #8
    str     \bytes, [r0, #\at + 8]
    .endm

    function cortado_conv_nines_s8__dsp
    push    {r4-r8, lr}
    ldm     r1, {r4, r5, r6}
    adds    r4, r4, r2
    adds    r5, r5, r2
    adds    r6, r6, r2
    movs    r8, #2
    /* One turn: one pixel. */
.Lnines_pixel:
    ldr     r1, [r4]
    ldr     r2, [r4, #4]
    ldrb    r7, [r4, #8]
    ldr     r12, [r5]
    widen   r1, 0
    widen   r2, 16
    orr     r7, r7, r12, lsl #8
    ldr     r1, [r5, #3]
    ldrh    r2, [r5, #7]
    ldrh    r12, [r6]
    widen   r7, 32
    widen   r1, 48
    orr     r2, r2, r12, lsl #16
    ldr     r1, [r6, #2]
    ldr     r7, [r6, #5]
    widen   r2, 64
    widen   r1, 80
    lsrs    r7, r7, #8
    widen   r7, 96
    adds    r4, r4, r3
    adds    r5, r5, r3
    adds    r6, r6, r3
    adds    r0, r0, #4
    subs    r8, r8, #1
    bne     .Lnines_pixel
    pop     {r4-r8, pc}
    .size   cortado_conv_nines_s8__dsp, . - cortado_conv_nines_s8__dsp

#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
