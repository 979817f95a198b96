/* SPDX-License-Identifier: Apache-2.0
 *
 * CORTADO_ISA(cortado_linear_group_s8) of linear_group_s8__scalar_dsp.h.
 *
 *   const int8_t *CORTADO_ISA(cortado_linear_group_s8)(const int8_t *x, const int8_t *weights, int32_t n, int32_t *sums)
 */
#include "cortado_asm.h"

#if defined(__thumb__)

    function CORTADO_ISA(cortado_linear_group_s8)
#if CORTADO_SMALL_CORE

    /* r0 end of x, r1 to r3 ends of the three rows of weights, r4 runs from -n to 0; sums in r8 to r10. */
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
    beq     1f
    products
    beq     2f
1:  products
    products
    bne     1b
2:  movs    r0, r3
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

    /* r2 end of x, r3 pairs of x; sums in r4 to r7, weights in r8 to r11. */
    .macro channel sum, weights
    sxtb16  lr, \weights
    smlad   \sum, lr, r3, \sum
    sxtb16  lr, \weights, ror #8
    smlad   \sum, lr, r12, \sum
    .endm

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
    bne     2f
1:  products
2:  products
    cmp     r0, r2
    bne     1b
    pop     {r3}
    mov     r0, r1
    stm     r3, {r4-r7}
    pop     {r4-r11, pc}

#else

    /* r2 end of x; sums in r4 to r7. */
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
0:  sub     r3, r2, r0 /* one by one to a multiple of four */
    tst     r3, #3
    beq     3f
    products
    b       0b
1:  products
    products
    products
    products
3:  cmp     r0, r2
    bne     1b
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
