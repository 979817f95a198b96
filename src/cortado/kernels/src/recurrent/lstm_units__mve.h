/* SPDX-License-Identifier: Apache-2.0
 *
 * All units of one step of an LSTM layer, the code of lstm_units_s8__mve.S and lstm_units_s16__mve.S. Internal.
 */
#ifndef LSTM_UNITS__MVE_H
#define LSTM_UNITS__MVE_H

    .macro lstm_units
    enter
    /* One turn: four units. */
.Llstm_four:
    gate    q4
    bl      .Lsigmoid
    vmov    q4, q0
    gate    q5
    bl      .Lsigmoid
    vmov    q5, q0
    gate    q6
    bl      .Ltanh
    vmul.i32 q4, q4, q0
    ldr     r0, [r8, #UNITS_MVE_CELLS]
    vrshl.s32 q4, r0
    gate    q6
    bl      .Lsigmoid
    vmov    q6, q0
    /* The cells: what the forget gate leaves of them, and the product. */
    vctp.32 r11
    vpst
    vldrht.s32 q0, [r7]
    vmul.i32 q0, q0, q5
    vadd.i32 q0, q0, q4
    vrshr.s32 q0, q0, #15
    saturate q0
    vpst
    vstrht.32 q0, [r7], #8
    ldr     r1, [r8, #UNITS_MVE_OUT]
    cbz     r1, .Llstm_hidden
    vmov    q5, q0
    store_codes UNITS_MVE_GIVEN, r1
    str     r1, [r8, #UNITS_MVE_OUT]
    vmov    q0, q5
.Llstm_hidden:
    ldr     r0, [r8, #UNITS_MVE_CELLS + 4]
    vrshl.s32 q0, r0
    bl      .Ltanh
    vmul.i32 q0, q0, q6
    mov     r1, r12
    store_codes UNITS_MVE_CODES, r1
    mov     r12, r1
    subs    r11, r11, #4
    bgt     .Llstm_four
    leave
    path_subroutine
    sigmoid_subroutine
    tanh_subroutine
    .endm

#endif /* LSTM_UNITS__MVE_H */
