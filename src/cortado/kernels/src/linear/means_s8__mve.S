/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums to means, for global average pooling with vector instructions.
 *
 *   void cortado_means_s8__mve(const int32_t *acc, int8_t *out, int32_t channels, int32_t count)
 *
 * Tile: 4 channels. Scratch: none.
 *
 * (|sum| + count / 2) times 2^32 / count, rounded up; its upper word is exact for counts up to 5770, as in
 * pool16_s8__mve.S. By 1: (|sum| + 1) * (2^32 - 1) / 2^32.
 *
 *   r0 acc   r1 out   r2 channels   r3 count, then half of it   r12 inverse   q0 sums   q1 signs   q2 inverse
 */
#include "cortado_asm.h"

#if defined(__ARM_FEATURE_MVE)

    function cortado_means_s8__mve
    push    {r4, lr}
    mov     r12, #-1
    udiv    r12, r12, r3
    lsrs    r3, r3, #1
    ite     eq
    moveq   r3, #1
    addne   r12, r12, #1
    vdup.32 q2, r12
    wlstp.32 lr, r2, .Lmeans_return
    /* One turn: four channels. */
.Lmeans_four:
    vldrw.32 q0, [r0], #16
    vshr.s32 q1, q0, #31
    vabs.s32 q0, q0
    vadd.i32 q0, q0, r3
    vmulh.u32 q0, q0, q2
    veor    q0, q0, q1
    vsub.i32 q0, q0, q1
    vstrb.32 q0, [r1], #4
    letp    lr, .Lmeans_four
.Lmeans_return:
    pop     {r4, pc}
    .size   cortado_means_s8__mve, . - cortado_means_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
