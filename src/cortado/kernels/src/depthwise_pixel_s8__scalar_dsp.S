/* SPDX-License-Identifier: Apache-2.0
 *
 * CORTADO_ISA(cortado_depthwise_pixel_s8) of depthwise_pixel_s8.h.
 *
 *   void CORTADO_ISA(cortado_depthwise_pixel_s8)(const cortado_depthwise_pixel_t *T, int8_t *out)
 */
#include "cortado_asm.h"

#if defined(__thumb__)

#define T_STREAM 0
#define T_TAPS 4
#define T_TAPS_END 8
#define T_CHANNELS 12
#define T_OFFSET 16

#if CORTADO_SMALL_CORE

/* Frame: the sums of four channels, T, out, the first channel. */
#define SUMS 0
#define TAPS 16
#define OUT 20
#define CHANNEL 24
#define FRAME 28

    function CORTADO_ISA(cortado_depthwise_pixel_s8)
    push    {r4-r7, lr}
    mov     r4, r8
    mov     r5, r9
    mov     r6, r10
    mov     r7, r11
    push    {r4-r7}
    sub     sp, sp, #FRAME
    str     r0, [sp, #TAPS]
    str     r1, [sp, #OUT]
    movs    r2, #0
    str     r2, [sp, #CHANNEL]
    ldr     r1, [r0, #T_STREAM]
0:  ldr     r0, [sp, #TAPS]
    ldr     r2, [sp, #CHANNEL]
    mov     r12, r2
    ldr     r2, [r0, #T_TAPS_END]
    mov     lr, r2
    ldr     r0, [r0, #T_TAPS]
    ldmia   r1!, {r4-r7}
    mov     r8, r4
    mov     r9, r5
    mov     r10, r6
    mov     r11, r7
    movs    r6, #2
    movs    r7, #3
1:  ldmia   r0!, {r2}
    add     r2, r2, r12
    ldmia   r1!, {r3}
    ldrb    r4, [r2]
    sxtb    r4, r4
    sxtb    r5, r3
    muls    r4, r5, r4
    add     r8, r4
    ldrb    r4, [r2, #1]
    sxtb    r4, r4
    asrs    r3, r3, #8
    sxtb    r5, r3
    muls    r4, r5, r4
    add     r9, r4
    ldrsb   r4, [r2, r6]
    asrs    r3, r3, #8
    sxtb    r5, r3
    muls    r4, r5, r4
    add     r10, r4
    ldrsb   r4, [r2, r7]
    asrs    r3, r3, #8
    muls    r4, r3, r4
    add     r11, r4
    cmp     r0, lr
    bne     1b
    mov     r2, r8
    mov     r3, r9
    mov     r4, r10
    mov     r5, r11
    mov     r6, sp
    stmia   r6!, {r2-r5}
    /* The factors from here on: r6 the sums, r7 out, lr the stream. */
    mov     lr, r1
    ldr     r0, [sp, #TAPS]
    adds    r0, r0, #T_OFFSET
    ldmia   r0!, {r1, r2, r3}
    mov     r9, r1
    mov     r10, r2
    mov     r11, r3
    movs    r1, #1
    lsls    r1, r1, #14
    mov     r12, r1
    ldr     r7, [sp, #OUT]
    ldr     r1, [sp, #CHANNEL]
    adds    r7, r7, r1
    mov     r6, sp
2:  mov     r1, lr
    ldmia   r1!, {r4, r5}
    mov     lr, r1
    mov     r8, r5
    lsrs    r5, r4, #16
    sxth    r4, r4
    ldmia   r6!, {r0}
    scale_small
    limit_small
    strb    r0, [r7]
    adds    r7, r7, #1
    add     r1, sp, #TAPS
    cmp     r6, r1
    bne     2b
    /* The next four channels, or the last four. */
    mov     r1, lr
    ldr     r0, [sp, #TAPS]
    ldr     r2, [r0, #T_CHANNELS]
    ldr     r3, [sp, #CHANNEL]
    adds    r3, r3, #4
    subs    r4, r2, r3
    beq     4f
    cmp     r4, #4
    bge     3f
    subs    r3, r2, #4
3:  str     r3, [sp, #CHANNEL]
    b       0b
4:  add     sp, sp, #FRAME
    pop     {r4-r7}
    mov     r8, r4
    mov     r9, r5
    mov     r10, r6
    mov     r11, r7
    pop     {r4-r7, pc}
    .size   CORTADO_ISA(cortado_depthwise_pixel_s8), . - CORTADO_ISA(cortado_depthwise_pixel_s8)

#else

/* Frame: T, out, the first channel. */
#define TAPS 0
#define OUT 4
#define CHANNEL 8

    .macro next_factors
    ldrd    r8, r9, [r1], #8
    ubfx    r0, r9, #8, #5
    .endm

    function CORTADO_ISA(cortado_depthwise_pixel_s8)
    push    {r0-r2, r4-r11, lr}
    mov     r12, #0
    ldr     r1, [r0, #T_STREAM]
0:  str     r12, [sp, #CHANNEL]
    add     r0, r0, #T_TAPS
    ldm     r0, {r0, lr}
    ldm     r1!, {r4-r7}
#if defined(__ARM_FEATURE_DSP)
    /* Two taps: the bytes of channels 0 and 1, then of 2 and 3, as pairs of halfwords. */
1:  ldrd    r2, r3, [r0], #8
    ldr     r2, [r2, r12]
    ldr     r3, [r3, r12]
    ldrd    r8, r9, [r1], #8
    pkhbt   r10, r2, r3, lsl #16
    pkhtb   r3, r3, r2, asr #16
    sxtb16  r2, r10
    sxtb16  r11, r8
    smlad   r4, r2, r11, r4
    sxtb16  r10, r10, ror #8
    sxtb16  r8, r8, ror #8
    smlad   r5, r10, r8, r5
    sxtb16  r2, r3
    sxtb16  r11, r9
    smlad   r6, r2, r11, r6
    sxtb16  r3, r3, ror #8
    sxtb16  r9, r9, ror #8
    smlad   r7, r3, r9, r7
#else
1:  ldr     r2, [r0], #4
    ldrsb   r8, [r1], #1
    add     r2, r2, r12
    ldrsb   r3, [r2]
    ldrsb   r9, [r1], #1
    mla     r4, r3, r8, r4
    ldrsb   r3, [r2, #1]
    ldrsb   r8, [r1], #1
    mla     r5, r3, r9, r5
    ldrsb   r3, [r2, #2]
    ldrsb   r9, [r1], #1
    mla     r6, r3, r8, r6
    ldrsb   r3, [r2, #3]
    mla     r7, r3, r9, r7
#endif
    cmp     r0, lr
    bne     1b
    ldr     r2, [sp, #TAPS]
    add     r2, r2, #T_OFFSET
    ldm     r2, {r10, r11, r12}
    next_factors
    scale   r4
    next_factors
    scale   r5
    next_factors
    scale   r6
    next_factors
    scale   r7
    sub     r0, r12, r11
    ldrd    r2, r3, [sp, #OUT]
    add     r2, r2, r3
    cmp     r0, #255
    bne     2f
    ssat    r4, #8, r4
    ssat    r5, #8, r5
    ssat    r6, #8, r6
    ssat    r7, #8, r7
    b       3f
2:  limit   r4
    limit   r5
    limit   r6
    limit   r7
3:  strb    r4, [r2]
    strb    r5, [r2, #1]
    strb    r6, [r2, #2]
    strb    r7, [r2, #3]
    /* The next four channels, or the last four. */
    ldr     r0, [sp, #TAPS]
    add     r12, r3, #4
    ldr     r2, [r0, #T_CHANNELS]
    subs    r3, r2, r12
    beq     4f
    cmp     r3, #4
    it      lt
    sublt   r12, r2, #4
    b       0b
4:  add     sp, sp, #12
    pop     {r4-r11, pc}
    .size   CORTADO_ISA(cortado_depthwise_pixel_s8), . - CORTADO_ISA(cortado_depthwise_pixel_s8)

#endif
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
