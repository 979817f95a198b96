/* SPDX-License-Identifier: Apache-2.0
 *
 * All units of one step of an RNN layer with vector instructions: recurrent_units_s8__mve.h.
 *
 *   void cortado_rnn_units_s8__mve(cortado_units_mve_t *T)
 *
 * Tile: 1 step x 4 units. Scratch: none.
 *
 *   r7 states after   r8 T, where the input's path stands   r9 where the state's does   r11 units left   q0 values
 *   q4 the input's path
 */
#include "cortado_asm.h"
#include "recurrent_units_s8__mve.h"

#if defined(__ARM_FEATURE_MVE)

    function cortado_rnn_units_s8__mve
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
    store_bytes r7
    subs    r11, r11, #4
    bgt     .Lrnn_four
    b       .Lrnn_return
    path_subroutine
    tanh_subroutine
    .size   cortado_rnn_units_s8__mve, . - cortado_rnn_units_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
