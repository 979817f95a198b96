/* SPDX-License-Identifier: Apache-2.0
 *
 * Multiplication with vector instructions, of every pixel of a by the channels of b.
 *
 *   void cortado_mul_channel_s8__mve(const cortado_mul_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n,
 *                                    int32_t channels)
 *
 * Tile: 1 pixel x 8 channels, of which b stays in a register over all pixels. Scratch: none.
 *
 * Differences are halfwords and their products words, those of even and of odd channels apart; narrowing them the same
 * way puts them back in order. The output is shifted right. Every element is read before its place is written, and not
 * again: out may be a. Where it starts less than n bytes before a, it would overwrite channels still to be read, and
 * pixels are the outer loop. While products become outputs, those of the next pixel are made.
 *
 *   r0 a of this pixel   r1 a of the first one   r2 b   r3 out of the first pixel   r4 -a_zero   r5 out of this pixel
 *   r6 output zero point   r7 multiplier   r8 shift   r9 -b_zero   r10 channels   r11 those left   r12 1
 *   lr turns left
 *   q0, q1 differences, products   q2, q3 scaled products   q4 outputs   q5 b   q6, q7 limits
 */
#include "cortado_asm.h"
#include "cortado_offsets.h"

#if defined(__ARM_FEATURE_MVE)

/* Behind the saved vectors: the arguments, of which L's place is taken for the turns of the loop over pixels; behind
 * all saved registers n, of which the elements left are kept, and channels were passed. */
#define TURNS 64
#define A 68
#define B 72
#define OUT 76
#define N 120

/* The scaled products to what is shifted. Ties go away from zero: negative values are decremented before the shift, by
 * a multiplication, because the unit for sums has more to do. */
    .macro shift
    vshr.s32 q1, q2, #31
    add     r0, r0, r10
    vmla.s32 q2, q1, r12
    vshr.s32 q0, q3, #31
    vmla.s32 q3, q0, r12
    vrshl.s32 q2, r8
    .endm

    .macro put
    vmax.s16 q4, q4, q6
    vmin.s16 q4, q4, q7
    vpst
    vstrbt.16 q4, [r5]
    .endm

    function cortado_mul_channel_s8__mve
    push    {r0-r12, lr}
    vpush   {d8-d15}
    ldm     r0, {r4-r10} /* from CORTADO_MUL_A_ZERO, which is 0, to act_max */
    vdup.16 q6, r9
    vdup.16 q7, r10
    rsb     r4, r4, #0
    rsb     r9, r5, #0
    ldrd    r0, r10, [sp, #N]
    sub     r11, r1, r3
    sub     r11, r11, #1
    sub     r12, r0, #1
    cmp     r11, r12
    it      lo
    movlo   r0, r10
    udiv    r0, r0, r10
    subs    r0, r0, #1
    str     r0, [sp, #TURNS]
    mov     r12, #1
    /* One turn: all pixels, or one. */
.Lmul_span:
    mov     r11, r10
    /* One turn: up to eight channels of all pixels. */
.Lmul_eight:
    vctp.16 r11
    vpst
    vldrbt.s16 q5, [r2], #8
    vadd.i16 q5, q5, r9
    mov     r0, r1
    mov     r5, r3
    vpst
    vldrbt.s16 q0, [r0]
    vadd.i16 q0, q0, r4
    vmullb.s16 q1, q0, q5
    vmullt.s16 q0, q0, q5
    vqrdmulh.s32 q2, q1, r7
    vqrdmulh.s32 q3, q0, r7
    ldr     lr, [sp, #TURNS]
    wls     lr, lr, .Lmul_last
    /* One turn: one pixel, and the products of the next. */
.Lmul_pixel:
    shift
    vpst
    vldrbt.s16 q0, [r0]
    vrshl.s32 q3, r8
    vqmovnb.s32 q4, q2
    vadd.i16 q0, q0, r4
    vmullb.s16 q1, q0, q5
    vqmovnt.s32 q4, q3
    vmullt.s16 q0, q0, q5
    vqrdmulh.s32 q2, q1, r7
    vqadd.s16 q4, q4, r6
    vqrdmulh.s32 q3, q0, r7
    put
    add     r5, r5, r10
    le      lr, .Lmul_pixel
.Lmul_last:
    shift
    vrshl.s32 q3, r8
    vqmovnb.s32 q4, q2
    vqmovnt.s32 q4, q3
    vqadd.s16 q4, q4, r6
    put
    adds    r1, r1, #8
    adds    r3, r3, #8
    subs    r11, r11, #8
    bgt     .Lmul_eight
    ldr     r0, [sp, #TURNS]
    ldrd    r1, r2, [sp, #A]
    ldr     r3, [sp, #OUT]
    mla     r0, r0, r10, r10
    ldr     r11, [sp, #N]
    add     r1, r1, r0
    add     r3, r3, r0
    str     r1, [sp, #A]
    str     r3, [sp, #OUT]
    subs    r11, r11, r0
    str     r11, [sp, #N]
    bgt     .Lmul_span
    vpop    {d8-d15}
    add     sp, sp, #16
    pop     {r4-r12, pc}
    .size   cortado_mul_channel_s8__mve, . - cortado_mul_channel_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
