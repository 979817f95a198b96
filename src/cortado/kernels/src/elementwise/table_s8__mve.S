/* SPDX-License-Identifier: Apache-2.0
 *
 * Table lookup with vector instructions.
 *
 *   void cortado_table_s8__mve(const int8_t table[256], const int8_t *in, int8_t *out, int32_t n)
 *
 * Tile: 16 elements. Scratch: none.
 *
 *   r0 table   r1 in   r2 out   r3 n   q0 values, then places in the table   q1 128 in every byte   q2 outputs
 */
#include "cortado_asm.h"

#if defined(__ARM_FEATURE_MVE)

    function cortado_table_s8__mve
    push    {r4, lr}
    vmov.i8 q1, #0x80
    wlstp.8 lr, r3, .Ltable_return
    /* One turn: sixteen elements. A value's place in the table is the value + 128, which turns its upper bit. */
.Ltable_sixteen:
    vldrb.8 q0, [r1], #16
    veor    q0, q0, q1
    vldrb.u8 q2, [r0, q0]
    vstrb.8 q2, [r2], #16
    letp    lr, .Ltable_sixteen
.Ltable_return:
    pop     {r4, pc}
    .size   cortado_table_s8__mve, . - cortado_table_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
