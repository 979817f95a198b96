/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of four output channels of one pixel with 4-bit weights on small cores: conv_narrow_s8__scalar.h.
 *
 *   const int8_t *cortado_linear_sums_s8__scalar(const int8_t *x, const int8_t *stream, const int8_t *end,
 *                                                int32_t *sums)
 *
 * Tile: 1 pixel x 4 channels. Scratch: none of its own; x, at a multiple of 4, is the kernel's.
 *
 * Two channels are in the 16-bit lanes of a word: one of their weights each, 8 more, times x. A lane holds sixteen such
 * products; then the word is added to a total, and its upper lane to a second one.
 *
 * The stream, for each four products of channels a, b, c, d:
 *
 *   | a 2 | b 2 | c 2 | d 2 |  halfwords of four weights, each 8 more, the first in the lowest bits
 *
 * While products are added:
 *   r0, r3, r4, r5 four x   r1 stream   r2 0x000F000F   r6 weights   r7 two of them, then products   lr x
 *   r8, r9 lanes of a and b, of c and d   r10, r11 their totals   r12 upper lanes of the first
 */
#include "conv_narrow_s8__scalar.h"
#include "cortado_asm.h"

#if defined(__thumb__) && CORTADO_SMALL_CORE

/* Frame. */
#define UPPER 0 /* upper lanes of the second */
#define END 4   /* of x */
#define SUMS 8
#define FRAME 12

/* The weights of one product, from bit \k on. */
    .macro one k, x, lanes
    .if \k == 0
    movs    r7, r6
    .else
    lsrs    r7, r6, #\k
    .endif
    ands    r7, r7, r2
    muls    r7, \x, r7
    add     \lanes, r7
    .endm

    .macro pair lanes
    ldmia   r1!, {r6}
    one     0, r0, \lanes
    one     4, r3, \lanes
    one     8, r4, \lanes
    one     12, r5, \lanes
    .endm

    .macro four
    mov     r7, lr
    ldmia   r7!, {r6}
    mov     lr, r7
    sxtb    r0, r6
    asrs    r6, r6, #8
    sxtb    r3, r6
    asrs    r6, r6, #8
    sxtb    r4, r6
    asrs    r5, r6, #8
    pair    r8
    pair    r9
    .endm

    function cortado_linear_sums_s8__scalar
    push    {r4-r7, lr}
    mov     r4, r8
    mov     r5, r9
    mov     r6, r10
    mov     r7, r11
    push    {r4-r7}
    sub     sp, sp, #FRAME
    str     r2, [sp, #END]
    str     r3, [sp, #SUMS]
    mov     lr, r0
    movs    r2, #15
    lsls    r3, r2, #16
    orrs    r2, r2, r3
    movs    r7, #0
    mov     r10, r7
    mov     r11, r7
    mov     r12, r7
    str     r7, [sp, #UPPER]
    /* One turn: sixteen products of each channel. */
.Lsums_turn:
    movs    r7, #0
    mov     r8, r7
    mov     r9, r7
    .rept 4
    four
    .endr
    movs    r7, #1
    lsls    r7, r7, #15
    mov     r6, r8
    add     r10, r6
    adds    r6, r6, r7
    asrs    r6, r6, #16
    add     r12, r6
    mov     r6, r9
    add     r11, r6
    adds    r6, r6, r7
    asrs    r6, r6, #16
    ldr     r7, [sp, #UPPER]
    adds    r7, r7, r6
    str     r7, [sp, #UPPER]
    ldr     r6, [sp, #END]
    cmp     r6, lr
    beq     .Lsums_end
    b       .Lsums_turn
.Lsums_end:
    ldr     r0, [sp, #SUMS]
    mov     r4, r12
    lsls    r5, r4, #16
    mov     r3, r10
    subs    r3, r3, r5
    lsls    r5, r7, #16
    mov     r6, r11
    subs    r5, r6, r5
    movs    r6, r7
    stmia   r0!, {r3-r6}
    movs    r0, r1
    add     sp, sp, #FRAME
    pop     {r4-r7}
    mov     r8, r4
    mov     r9, r5
    mov     r10, r6
    mov     r11, r7
    pop     {r4-r7, pc}
    .size   cortado_linear_sums_s8__scalar, . - cortado_linear_sums_s8__scalar

#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
