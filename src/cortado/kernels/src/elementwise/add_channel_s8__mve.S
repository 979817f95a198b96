/* SPDX-License-Identifier: Apache-2.0
 *
 * Addition with vector instructions, of one value per channel to every pixel.
 *
 *   void cortado_add_channel_s8__mve(const cortado_add_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n,
 *                                    int32_t channels)
 *
 * Tile: 1 pixel x 4 channels, of which b, rescaled, stays in a register over all pixels. Scratch: none.
 *
 * No factor is shifted left. Channels are the outer loop; where the output starts less than n bytes before a, that
 * would overwrite channels still to be read, so pixels are.
 *
 *   r0 channels left   r1 a of the first pixel   r2 b   r3 its output   r4 a of this pixel   r5, r6 a's multiplier and
 *   shift   r7 output of this pixel   r8 -a_zero   r9, r10, r11 the output's multiplier, shift and zero point
 *   r12 channels   lr turns left
 *   q0 a, then sums   q1, q2 what rounds   q3 a's shift   q4 b   q5 the output's shift   q6, q7 limits
 */
#include "cortado_asm.h"
#include "cortado_offsets.h"

#if defined(__ARM_FEATURE_MVE)

/* Behind the saved vectors: the arguments, then saved registers, of which r12's place is taken for the pixels of a
 * turn; behind all of them n, of which the elements left are kept, and channels were passed. */
#define LAYER 64
#define A 68
#define B 72
#define OUT 76
#define PIXELS 112
#define N 120

/* Ties go away from zero: negative values are decremented before a right shift, by 0 or more. */
    .macro rescale value, multiplier, shift, shifts, free
    vqrdmulh.s32 \value, \value, \multiplier
    vand    \free, \value, \shifts
    vshr.s32 \free, \free, #31
    vadd.i32 \value, \value, \free
    vrshl.s32 \value, \shift
    .endm

    function cortado_add_channel_s8__mve
    push    {r0-r12, lr}
    vpush   {d8-d15}
    ldrd    r4, r12, [sp, #N]
    sub     r5, r1, r3
    subs    r5, r5, #1
    subs    r6, r4, #1
    cmp     r5, r6
    it      lo
    movlo   r4, r12
    udiv    r4, r4, r12
    str     r4, [sp, #PIXELS]
    ldrsb   r4, [r0, #CORTADO_ADD_A_SHIFT]
    ldrsb   r10, [r0, #CORTADO_ADD_OUT_SHIFT]
    vdup.32 q3, r4
    vdup.32 q5, r10
    mov     r6, r4
    ldrsb   r4, [r0, #CORTADO_ADD_ACT_MIN]
    ldrsb   r5, [r0, #CORTADO_ADD_ACT_MAX]
    vdup.32 q6, r4
    vdup.32 q7, r5
    ldrsb   r8, [r0, #CORTADO_ADD_A_ZERO]
    ldrsb   r11, [r0, #CORTADO_ADD_OUT_ZERO]
    ldr     r5, [r0, #CORTADO_ADD_A_MULTIPLIER]
    ldr     r9, [r0, #CORTADO_ADD_OUT_MULTIPLIER]
    rsb     r8, r8, #0
    /* One turn: all pixels, or one. */
.Ladd_span:
    ldr     r2, [sp, #B]
    mov     r0, r12
    /* One turn: up to four channels. */
.Ladd_channels:
    vctp.32 r0
    ldr     r4, [sp, #LAYER]
    vpst
    vldrbt.s32 q4, [r2], #4
    ldrsb   r7, [r4, #CORTADO_ADD_B_ZERO]
    ldrsb   lr, [r4, #CORTADO_ADD_B_SHIFT]
    rsb     r7, r7, #0
    ldr     r4, [r4, #CORTADO_ADD_B_MULTIPLIER]
    vadd.i32 q4, q4, r7
    vdup.32 q2, lr
    vshl.i32 q4, q4, #20
    rescale q4, r4, lr, q2, q1
    mov     r4, r1
    mov     r7, r3
    ldr     lr, [sp, #PIXELS]
    /* One turn: one pixel. */
.Ladd_pixel:
    vpst
    vldrbt.s32 q0, [r4]
    add     r4, r4, r12
    vadd.i32 q0, q0, r8
    vshl.i32 q0, q0, #20
    rescale q0, r5, r6, q3, q2
    vadd.i32 q0, q0, q4
    rescale q0, r9, r10, q5, q2
    vadd.i32 q0, q0, r11
    vmax.s32 q0, q0, q6
    vmin.s32 q0, q0, q7
    vpst
    vstrbt.32 q0, [r7]
    add     r7, r7, r12
    le      lr, .Ladd_pixel
    adds    r1, r1, #4
    adds    r3, r3, #4
    subs    r0, r0, #4
    bgt     .Ladd_channels
    ldr     r1, [sp, #A]
    ldr     r3, [sp, #OUT]
    ldr     r7, [sp, #PIXELS]
    mul     r7, r7, r12
    ldr     r4, [sp, #N]
    add     r1, r1, r7
    add     r3, r3, r7
    str     r1, [sp, #A]
    str     r3, [sp, #OUT]
    subs    r4, r4, r7
    str     r4, [sp, #N]
    bgt     .Ladd_span
    vpop    {d8-d15}
    add     sp, sp, #16
    pop     {r4-r12, pc}
    .size   cortado_add_channel_s8__mve, . - cortado_add_channel_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
