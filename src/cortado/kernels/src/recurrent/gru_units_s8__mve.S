/* SPDX-License-Identifier: Apache-2.0
 *
 * All units of one step of a GRU layer with vector instructions: recurrent_units_s8__mve.h.
 *
 *   void cortado_gru_units_s8__mve(cortado_units_mve_t *T)
 *
 * Tile: 1 step x 4 units. Scratch: none.
 *
 *   r7 states of 16 bits   r8 T, where the input's path stands   r9 where the state's does   r11 units left
 *   r12 states after   q0 values   q4 reset   q5 update   q6 the input's path of the new gate
 */
#include "cortado_asm.h"
#include "recurrent_units_s8__mve.h"

#if defined(__ARM_FEATURE_MVE)

    function cortado_gru_units_s8__mve
    enter
    /* One turn: four units. */
.Lgru_four:
    gate    q4
    bl      .Lsigmoid
    vmov    q4, q0
    gate    q5
    bl      .Lsigmoid
    vmov    q5, q0
    path    r8
    vmov    q6, q0
    path    r9
    saturate q0
    vmul.i32 q0, q0, q4
    vrshr.s32 q0, q0, #14
    vadd.i32 q0, q0, q6
    bl      .Ltanh
    ldr     r0, [r8, #UNITS_MVE_CELLS]
    vrshl.s32 q0, r0
    /* The state goes from its value before to the new one, by what the update gate leaves of it. */
    vctp.32 r11
    vpst
    vldrht.s32 q1, [r7]
    vsub.i32 q1, q1, q0
    vmul.i32 q1, q1, q5
    vshl.i32 q0, q0, #15
    vadd.i32 q0, q0, q1
    vrshr.s32 q0, q0, #15
    vpst
    vstrht.32 q0, [r7], #8
    mov     r1, r12
    store_codes UNITS_MVE_CODES, r1
    mov     r12, r1
    subs    r11, r11, #4
    bgt     .Lgru_four
    leave
    path_subroutine
    sigmoid_subroutine
    tanh_subroutine
    .size   cortado_gru_units_s8__mve, . - cortado_gru_units_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
