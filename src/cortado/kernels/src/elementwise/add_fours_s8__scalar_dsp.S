/* SPDX-License-Identifier: Apache-2.0
 *
 * Addition on cores with a long multiply, four elements at a time: add_fours_s8__scalar_dsp.h.
 *
 *   void cortado_add_fours_s8(const cortado_add_fours_t *F, const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
 *
 * Tile: 4 elements. Scratch: none.
 *
 *   r0 right shift, between them F   r1 a   r2 b   r3 out   r4 to r7 four sums   r8 multiplier   r9 shift word
 *   r10 b's element, later the output's zero   r11 what to add to an operand   r12 four bytes (DSP)   lr free
 */
#include "add_fours_s8__scalar_dsp.h"
#include "cortado_asm.h"

#if defined(__thumb__) && !CORTADO_SMALL_CORE

/* Frame. */
#define LAYER 0    /* F, as it was passed */
#define OUT_END 40 /* where n was passed, behind the saved registers */

/* Byte \number, on DSP cores of r12, with r11 added. */
    .macro operand acc, number, from
#if defined(__ARM_FEATURE_DSP)
    .if \number == 0
    sxtab   \acc, r11, r12
    .else
    sxtab   \acc, r11, r12, ror #(8 * \number)
    .endif
#else
    ldrsb   \acc, [\from], #1
    add     \acc, \acc, r11
#endif
    .endm

/* The next four bytes in r12, on DSP cores. */
    .macro four_bytes from
#if defined(__ARM_FEATURE_DSP)
    load_four r12, \from, lr
#endif
    .endm

/* Adds (b - zero) << 19. */
    .macro add_half sum, number
    operand r10, \number, r2
    add     \sum, \sum, r10, lsl #19
    .endm

    function CORTADO_ISA(cortado_add_fours_s8)
    push    {r0, r4-r11, lr}
    ldr     r4, [sp, #OUT_END]
    add     r4, r4, r3
    str     r4, [sp, #OUT_END]
    /* One turn: four elements. a is scaled, half of b is added, and their sum is scaled. */
.Lfours:
    ldr     r0, [sp, #LAYER]
    four_bytes r1
    ldm     r0, {r0, r8, r9, r11}
    operand r4, 0, r1
    scale   r4, #0
    operand r5, 1, r1
    scale   r5, #0
    operand r6, 2, r1
    scale   r6, #0
    operand r7, 3, r1
    scale   r7, #0
    ldr     r0, [sp, #LAYER]
    four_bytes r2
    ldr     r11, [r0, #FOURS_B_ZERO]
    add_half r4, 0
    add_half r5, 1
    add_half r6, 2
    add_half r7, 3
    add     r0, r0, #FOURS_OUT
    ldm     r0, {r0, r8-r10}
    scale   r4, r10
    scale   r5, r10
    scale   r6, r10
    scale   r7, r10
    ssat    r4, #8, r4
    ssat    r5, #8, r5
    ssat    r6, #8, r6
    ssat    r7, #8, r7
    ldr     r0, [sp, #OUT_END]
    strb    r4, [r3], #1
    strb    r5, [r3], #1
    strb    r6, [r3], #1
    strb    r7, [r3], #1
    cmp     r3, r0
    bne     .Lfours
    pop     {r0, r4-r11, pc}
    .size   CORTADO_ISA(cortado_add_fours_s8), . - CORTADO_ISA(cortado_add_fours_s8)
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
