/* SPDX-License-Identifier: Apache-2.0
 *
 * The sum over pixels of every channel, for global average pooling with vector instructions.
 *
 *   void cortado_sum_rows_s8__mve(int32_t *acc, const int8_t *in, int32_t pixels, int32_t channels)
 *
 * Tile: 8 channels in sums of 16 bits, which hold 256 pixels; then, or if there are more, 4 in sums of 32. Scratch:
 * none.
 *
 *   r0 acc   r1 in   r2 pixels   r3 channels left   r4 pixel   r5 channels (bytes to the next pixel)
 *   r6 eight halfwords   q0 sums   q1 a pixel   q2, q3 acc
 */
#include "cortado_asm.h"

#if defined(__ARM_FEATURE_MVE)

    function cortado_sum_rows_s8__mve
    push    {r4-r6, lr}
    sub     sp, sp, #16
    mov     r5, r3
    mov     r6, sp
    cmp     r2, #256
    bgt     .Lrows_four
    subs    r3, r3, #8
    blt     .Lrows_eights_done
    /* One turn: eight channels of all pixels. */
.Lrows_eight:
    mov     r4, r1
    vmov.i16 q0, #0
    dls     lr, r2
    /* One turn: one pixel. */
.Lrows_eight_pixel:
    vldrb.s16 q1, [r4]
    add     r4, r4, r5
    vadd.i16 q0, q0, q1
    le      lr, .Lrows_eight_pixel
    /* Through memory, so that they are widened in order. */
    vstrh.16 q0, [r6]
    vldrh.s32 q0, [r6]
    vldrh.s32 q1, [r6, #8]
    vldrw.32 q2, [r0]
    vldrw.32 q3, [r0, #16]
    vadd.i32 q2, q2, q0
    vadd.i32 q3, q3, q1
    vstrw.32 q2, [r0], #16
    vstrw.32 q3, [r0], #16
    add     r1, r1, #8
    subs    r3, r3, #8
    bge     .Lrows_eight
.Lrows_eights_done:
    adds    r3, r3, #8
    beq     .Lrows_return
    /* One turn: up to four channels of all pixels. */
.Lrows_four:
    vctp.32 r3
    mov     r4, r1
    vpst
    vldrwt.32 q0, [r0]
    dls     lr, r2
    /* One turn: one pixel. */
.Lrows_four_pixel:
    vpst
    vldrbt.s32 q1, [r4]
    add     r4, r4, r5
    vadd.i32 q0, q0, q1
    le      lr, .Lrows_four_pixel
    vpst
    vstrwt.32 q0, [r0], #16
    add     r1, r1, #4
    subs    r3, r3, #4
    bgt     .Lrows_four
.Lrows_return:
    add     sp, sp, #16
    pop     {r4-r6, pc}
    .size   cortado_sum_rows_s8__mve, . - cortado_sum_rows_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
