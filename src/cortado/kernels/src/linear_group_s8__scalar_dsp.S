/* SPDX-License-Identifier: Apache-2.0
 *
 * The products of a few output channels of one pixel, for cores without vector instructions:
 * linear_group_s8__scalar_dsp.h.
 *
 *   const int8_t *cortado_linear_group_s8(const int8_t *x, const int8_t *weights, int32_t n, int32_t *sums)
 *
 * Tile: 1 pixel x 4 channels, on small cores 3. Scratch: none.
 *
 * The stream of cortado_linear_s8, for each group of channels a, b, c, d; channels that make a group whole are zeros:
 *
 *   DSP     | a 4 | b 4 | c 4 | d 4 |  each four products, padded with zeros
 *   long    | a | b | c | d |          each product
 *   small   | a n | b n | c n |        all products of one channel after the other
 *
 *   then, for each channel:  | bias 4 | multiplier 4 | right shift less 1, 4 |
 *
 * This function reads the products; its kernel reads the rest.
 */
#include "cortado_asm.h"

#if defined(__thumb__)

    function CORTADO_ISA(cortado_linear_group_s8)
#if CORTADO_SMALL_CORE

/* small:
 *   r0 end of x   r1 to r3 ends of the three rows of weights   r4 runs from -n to 0   r5 x   r6, r7 weights
 *   r8 to r10 sums
 */
    /* One product of each channel; the flags say whether r4 has come to 0. */
    .macro products
    ldrsb   r5, [r0, r4]
    ldrsb   r6, [r1, r4]
    muls    r6, r5, r6
    add     r8, r6
    ldrsb   r6, [r2, r4]
    ldrsb   r7, [r3, r4]
    muls    r6, r5, r6
    add     r9, r6
    muls    r7, r5, r7
    add     r10, r7
    adds    r4, r4, #1
    .endm

    push    {r3-r7, lr}
    mov     r5, r8
    mov     r6, r9
    mov     r7, r10
    push    {r5-r7}
    ldmia   r3!, {r5-r7}
    mov     r8, r5
    mov     r9, r6
    mov     r10, r7
    rsbs    r4, r2, #0
    adds    r0, r0, r2
    adds    r1, r1, r2
    adds    r3, r1, r2
    adds    r3, r3, r2
    adds    r2, r1, r2
    movs    r5, #1
    tst     r4, r5
    beq     .Lgroup_products
    products
    beq     .Lgroup_return
    /* One turn: two products of each channel; an odd first one is behind. */
.Lgroup_products:
    products
    products
    bne     .Lgroup_products
.Lgroup_return:
    movs    r0, r3
    mov     r1, r8
    mov     r2, r9
    mov     r4, r10
    pop     {r5-r7}
    mov     r8, r5
    mov     r9, r6
    mov     r10, r7
    pop     {r3}
    stmia   r3!, {r1, r2, r4}
    pop     {r4-r7, pc}

#elif defined(__ARM_FEATURE_DSP)

/* DSP:
 *   r0 x   r1 weights   r2 end of x   r3, r12 even and odd x as halfwords   r4 to r7 sums
 *   r8 to r11 weights, four of each channel
 */
    /* Four products of one channel. */
    .macro channel sum, weights
    sxtb16  lr, \weights
    smlad   \sum, lr, r3, \sum
    sxtb16  lr, \weights, ror #8
    smlad   \sum, lr, r12, \sum
    .endm

    /* Four products of each channel. */
    .macro products
    ldr     r12, [r0], #4
    ldm     r1!, {r8-r11}
    sxtb16  r3, r12
    sxtb16  r12, r12, ror #8
    channel r4, r8
    channel r5, r9
    channel r6, r10
    channel r7, r11
    .endm

    push    {r3-r11, lr}
    ldm     r3, {r4-r7}
    add     r2, r2, r0
    sub     r3, r2, r0
    tst     r3, #4
    bne     .Lgroup_four
    /* One turn: eight products of each channel; the first turn has four where they are no multiple of eight. */
.Lgroup_products:
    products
.Lgroup_four:
    products
    cmp     r0, r2
    bne     .Lgroup_products
    pop     {r3}
    mov     r0, r1
    stm     r3, {r4-r7}
    pop     {r4-r11, pc}

#else

/* long:
 *   r0 x   r1 weights   r2 end of x   r3 one x   r4 to r7 sums   r8, r9, r12, lr one weight of each channel
 */
    /* One product of each channel. */
    .macro products
    ldrsb   r3, [r0], #1
    ldrsb   r8, [r1], #1
    ldrsb   r9, [r1], #1
    ldrsb   r12, [r1], #1
    ldrsb   lr, [r1], #1
    mla     r4, r3, r8, r4
    mla     r5, r3, r9, r5
    mla     r6, r3, r12, r6
    mla     r7, r3, lr, r7
    .endm

    push    {r3-r9, lr}
    ldm     r3, {r4-r7}
    add     r2, r2, r0
    /* One turn: one product of each channel, until a multiple of four is left. */
.Lgroup_odd:
    sub     r3, r2, r0
    tst     r3, #3
    beq     .Lgroup_fours
    products
    b       .Lgroup_odd
    /* One turn: four products of each channel. */
.Lgroup_products:
    products
    products
    products
    products
.Lgroup_fours:
    cmp     r0, r2
    bne     .Lgroup_products
    pop     {r3}
    mov     r0, r1
    stm     r3, {r4-r7}
    pop     {r4-r9, pc}

#endif
    .size   CORTADO_ISA(cortado_linear_group_s8), . - CORTADO_ISA(cortado_linear_group_s8)
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
