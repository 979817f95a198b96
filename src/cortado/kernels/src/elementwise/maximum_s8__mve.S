/* SPDX-License-Identifier: Apache-2.0
 *
 * The larger of each two values, with vector instructions.
 *
 *   void cortado_maximum_s8__mve(const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
 *
 * Tile: 16 elements. Scratch: none.
 *
 *   r0 a   r1 b   r2 out   r3 n   q0, q1 values
 */
#include "cortado_asm.h"

#if defined(__ARM_FEATURE_MVE)

    function cortado_maximum_s8__mve
    push    {r4, lr}
    wlstp.8 lr, r3, .Lmaximum_return
    /* One turn: sixteen elements. */
.Lmaximum_sixteen:
    vldrb.8 q0, [r0], #16
    vldrb.8 q1, [r1], #16
    vmax.s8 q0, q0, q1
    vstrb.8 q0, [r2], #16
    letp    lr, .Lmaximum_sixteen
.Lmaximum_return:
    pop     {r4, pc}
    .size   cortado_maximum_s8__mve, . - cortado_maximum_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
