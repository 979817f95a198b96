/* SPDX-License-Identifier: Apache-2.0
 *
 * All units of one step of a GRU layer, the code of gru_units_s8__mve.S and gru_units_s16__mve.S. Internal.
 */
#ifndef GRU_UNITS__MVE_H
#define GRU_UNITS__MVE_H

    .macro gru_units
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
    .endm

#endif /* GRU_UNITS__MVE_H */
