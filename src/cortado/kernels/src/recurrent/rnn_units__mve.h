/* SPDX-License-Identifier: Apache-2.0
 *
 * All units of one step of an RNN layer, the code of rnn_units_s8__mve.S and rnn_units_s16__mve.S. Internal.
 */
#ifndef RNN_UNITS__MVE_H
#define RNN_UNITS__MVE_H

    .macro rnn_units
    enter
    mov     r7, r12
    /* One turn: four units. */
.Lrnn_four:
    gate    q4
    vctp.32 r11
    ldr     r0, [r8, #UNITS_MVE_RELU]
    cbnz    r0, .Lrnn_relu
    bl      .Ltanh
    store_codes UNITS_MVE_CODES, r7
    subs    r11, r11, #4
    bgt     .Lrnn_four
    /* Here also from below, after the last units. */
.Lrnn_return:
    leave
.Lrnn_relu:
    ldr     r6, [r8, #UNITS_MVE_CODES + 12]
    vmov.i32 q1, #0
    vmax.s32 q0, q0, q1
    vrshr.s32 q0, q0, #8
    vadd.i32 q0, q0, r6
    store r7
    subs    r11, r11, #4
    bgt     .Lrnn_four
    b       .Lrnn_return
    path_subroutine
    tanh_subroutine
    .endm

#endif /* RNN_UNITS__MVE_H */
