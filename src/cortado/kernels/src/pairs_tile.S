/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of cortado_pairs.h, for Armv6-M / Armv8-M Baseline and for Armv7-M and up. See pairs_tile.c for what
 * they compute.
 *
 * const int8_t *cortado_pairs_tileN(const int32_t *packed, const int8_t *weights, int32_t depth, int32_t *sums)
 */
#if defined(__thumb__)
    .syntax unified
    .thumb

#if defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)

/* r0 packed, r1 weights, lr end of packed; r8/r9 and r10/r11: total and upper lanes of each pair; r12 rounds the upper
 * lane. One turn takes four weights, two at a time. */
    .macro enter log2_bytes
    push    {r3-r7, lr}
    mov     r4, r8
    mov     r5, r9
    mov     r6, r10
    mov     r7, r11
    push    {r4-r7}
    lsls    r2, r2, #\log2_bytes
    adds    r2, r2, r0
    mov     lr, r2
    movs    r2, #1
    lsls    r2, r2, #15
    mov     r12, r2
    movs    r2, #0
    mov     r8, r2
    mov     r9, r2
    .endm

    /* Adds the two products of \word to total \total and upper lane \upper. */
    .macro collect word, total, upper
    add     \total, \word
    add     \word, r12
    asrs    \word, \word, #16
    add     \upper, \word
    .endm

    /* Stores both lanes: the lower one is the total without the upper one. */
    .macro leave_pair total, upper, at
    mov     r4, \total
    mov     r5, \upper
    lsls    r6, r5, #16
    subs    r4, r4, r6
    str     r4, [r3, #\at]
    str     r5, [r3, #\at + 4]
    .endm

    .macro leave
    movs    r0, r1
    pop     {r4-r7}
    mov     r8, r4
    mov     r9, r5
    mov     r10, r6
    mov     r11, r7
    pop     {r3-r7, pc}
    .endm

    .section .text.cortado_pairs_tile1, "ax", %progbits
    .global cortado_pairs_tile1
    .type   cortado_pairs_tile1, %function
    .p2align 2
    .thumb_func
cortado_pairs_tile1:
    enter   2
1:  ldmia   r1!, {r6}
    ldmia   r0!, {r2-r5}
    sxtb    r7, r6
    muls    r2, r7, r2
    asrs    r6, r6, #8
    sxtb    r7, r6
    muls    r3, r7, r3
    adds    r2, r2, r3
    collect r2, r8, r9
    asrs    r6, r6, #8
    sxtb    r7, r6
    muls    r4, r7, r4
    asrs    r6, r6, #8
    muls    r5, r6, r5
    adds    r4, r4, r5
    collect r4, r8, r9
    cmp     r0, lr
    bne     1b
    ldr     r3, [sp, #16]
    leave_pair r8, r9, 0
    leave
    .size   cortado_pairs_tile1, . - cortado_pairs_tile1

    .section .text.cortado_pairs_tile2, "ax", %progbits
    .global cortado_pairs_tile2
    .type   cortado_pairs_tile2, %function
    .p2align 2
    .thumb_func
cortado_pairs_tile2:
    enter   3
    mov     r10, r2
    mov     r11, r2
1:  ldmia   r1!, {r6}
    ldmia   r0!, {r2-r5}
    sxtb    r7, r6
    muls    r2, r7, r2
    muls    r3, r7, r3
    asrs    r6, r6, #8
    sxtb    r7, r6
    muls    r4, r7, r4
    muls    r5, r7, r5
    adds    r2, r2, r4
    adds    r3, r3, r5
    collect r2, r8, r9
    collect r3, r10, r11
    ldmia   r0!, {r2-r5}
    asrs    r6, r6, #8
    sxtb    r7, r6
    muls    r2, r7, r2
    muls    r3, r7, r3
    asrs    r6, r6, #8
    muls    r4, r6, r4
    muls    r5, r6, r5
    adds    r2, r2, r4
    adds    r3, r3, r5
    collect r2, r8, r9
    collect r3, r10, r11
    cmp     r0, lr
    bne     1b
    ldr     r3, [sp, #16]
    leave_pair r8, r9, 0
    leave_pair r10, r11, 8
    leave
    .size   cortado_pairs_tile2, . - cortado_pairs_tile2

#else

/* r0 packed, r1 weights, lr end of packed, r4 to r11 the 64-bit sums. A sum starts at 2^22, half a lane, so that its
 * lower lane never borrows from the upper one. */
    .macro leave_pair low, high, at
    ubfx    r2, \low, #0, #23
    lsrs    \low, \low, #23
    sub     r2, r2, #0x400000
    orr     \low, \low, \high, lsl #9
    strd    r2, \low, [r3, #\at]
    .endm

    .macro step1
    ldr     r2, [r0], #4
    ldrsb   r12, [r1], #1
    smlal   r4, r5, r2, r12
    ldrsb   r12, [r1], #1
    smlal   r8, r9, r2, r12
    .endm

    .macro step2
    ldrd    r2, r3, [r0], #8
    ldrsb   r12, [r1], #1
    smlal   r4, r5, r2, r12
    smlal   r6, r7, r3, r12
    ldrsb   r12, [r1], #1
    smlal   r8, r9, r2, r12
    smlal   r10, r11, r3, r12
    .endm

    .section .text.cortado_pairs_tile1, "ax", %progbits
    .global cortado_pairs_tile1
    .type   cortado_pairs_tile1, %function
    .p2align 2
    .thumb_func
cortado_pairs_tile1:
    push    {r3-r9, lr}
    add     lr, r0, r2, lsl #2
    mov     r4, #0x400000
    movs    r5, #0
    mov     r8, r4
    mov     r9, r5
1:  step1
    step1
    step1
    step1
    cmp     r0, lr
    bne     1b
    ldr     r3, [sp]
    leave_pair r4, r5, 0
    leave_pair r8, r9, 16
    mov     r0, r1
    pop     {r3-r9, pc}
    .size   cortado_pairs_tile1, . - cortado_pairs_tile1

    .section .text.cortado_pairs_tile2, "ax", %progbits
    .global cortado_pairs_tile2
    .type   cortado_pairs_tile2, %function
    .p2align 2
    .thumb_func
cortado_pairs_tile2:
    push    {r3-r11, lr}
    add     lr, r0, r2, lsl #3
    mov     r4, #0x400000
    movs    r5, #0
    mov     r6, r4
    mov     r7, r5
    mov     r8, r4
    mov     r9, r5
    mov     r10, r4
    mov     r11, r5
1:  step2
    step2
    step2
    step2
    cmp     r0, lr
    bne     1b
    ldr     r3, [sp]
    leave_pair r4, r5, 0
    leave_pair r6, r7, 8
    leave_pair r8, r9, 16
    leave_pair r10, r11, 24
    mov     r0, r1
    pop     {r3-r11, pc}
    .size   cortado_pairs_tile2, . - cortado_pairs_tile2

#endif
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
