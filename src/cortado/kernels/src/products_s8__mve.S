/* SPDX-License-Identifier: Apache-2.0
 *
 * The sums of products of four rows of weights with one vector, for recurrent layers with vector instructions.
 *
 *   const int8_t *cortado_products_s8__mve(const int8_t *x, const int8_t *weights, int32_t n, int32_t *sums)
 *
 * Tile: 16 products x 4 rows. Scratch: none.
 *
 * The stream: | a 16 | b 16 | c 16 | d 16 |, sixteen products of each row in turn, the last ones padded with zeros.
 *
 *   r0 x   r1 weights   r2 products left   r3 sums   r4, r6, r8, r10 the four sums   q0 x   q1 to q4 weights
 */
#include "cortado_asm.h"

#if defined(__ARM_FEATURE_MVE)

    function cortado_products_s8__mve
    push    {r4-r11, lr}
    vpush   {d8-d9}
    ldr     r4, [r3]
    ldr     r6, [r3, #4]
    ldr     r8, [r3, #8]
    ldr     r10, [r3, #12]
    dlstp.8 lr, r2
    /* One turn: up to sixteen products of each row; x is not read beyond its end, there the weights are zeros. */
.Lproducts_sixteen:
    vldrb.8 q0, [r0], #16
    vldrb.8 q1, [r1], #16
    vmladava.s8 r4, q0, q1
    vldrb.8 q2, [r1], #16
    vmladava.s8 r6, q0, q2
    vldrb.8 q3, [r1], #16
    vmladava.s8 r8, q0, q3
    vldrb.8 q4, [r1], #16
    vmladava.s8 r10, q0, q4
    letp    lr, .Lproducts_sixteen
    str     r4, [r3]
    str     r6, [r3, #4]
    str     r8, [r3, #8]
    str     r10, [r3, #12]
    mov     r0, r1
    vpop    {d8-d9}
    pop     {r4-r11, pc}
    .size   cortado_products_s8__mve, . - cortado_products_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
