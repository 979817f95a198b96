/* SPDX-License-Identifier: Apache-2.0
 *
 * What depends on codes of 8 bits in recurrent_units__mve.h. Internal.
 */
#ifndef RECURRENT_UNITS_S8__MVE_H
#define RECURRENT_UNITS_S8__MVE_H

#include "recurrent_units__mve.h"

#if defined(__ASSEMBLER__)

/* Four rows of one path, of the input or of the state before: \at is where its vector, its length and its stream
 * stand. Result in q0; r0 to r6, r10, lr, q1, q2 and q3 are lost. */
    .macro path at
    ldm     \at, {r1, r3, r5}
    bl      .Lpath
    str     r5, [\at, #UNITS_MVE_STREAM]
    .endm

/* q0 to codes by the factor at r8 + \factor; the lanes that VPR lets pass are stored at \to, a register below r8. r0,
 * r2, r4, r6 and q1 are lost. Ties go away from zero: with a shift to the right negative values are decremented before
 * it. */
    .macro store_codes factor, to
    ldrd    r0, r2, [r8, #\factor]
    ldrd    r4, r6, [r8, #\factor + 8]
    vshl.s32 q0, r2
    vqrdmulh.s32 q0, q0, r0
    vdup.32 q1, r4
    vand    q1, q1, q0
    vshr.s32 q1, q1, #31
    vadd.i32 q0, q0, q1
    vrshl.s32 q0, r4
    vadd.i32 q0, q0, r6
    store \to
    .endm

/* q0, saturated to 8 bits, by those lanes. */
    .macro store to
    vqmovnb.s32 q0, q0
    vqmovnb.s16 q0, q0
    vpst
    vstrbt.32 q0, [\to], #4
    .endm

/* What macro `path` calls: r1 vector, r3 its length, r5 stream. VMLADAVA sums into an even core register, and the sums
 * begin with the biases. */
    .macro path_subroutine
.Lpath:
    mov     r10, lr
    ldrd    r0, r2, [r5], #8
    ldrd    r4, r6, [r5], #8
    dlstp.8 lr, r3
    /* One turn: up to sixteen products of each row. */
.Lpath_sixteen:
    vldrb.8 q0, [r1], #16
    vldrb.8 q1, [r5], #16
    vmladava.s8 r0, q0, q1
    vldrb.8 q2, [r5], #16
    vmladava.s8 r2, q0, q2
    vldrb.8 q3, [r5], #16
    vmladava.s8 r4, q0, q3
    vldrb.8 q1, [r5], #16
    vmladava.s8 r6, q0, q1
    letp    lr, .Lpath_sixteen
    vldrw.32 q1, [r5], #16
    vmov    d0, r0, r2
    vldrw.32 q2, [r5], #16
    vmov    d1, r4, r6
    /* Shifts to the left come before the product, those to the right behind it. */
    vmov.i32 q3, #0
    vmax.s32 q3, q3, q2
    vshl.s32 q0, q0, q3
    vqrdmulh.s32 q0, q0, q1
    vand    q1, q0, q2
    vshr.s32 q1, q1, #31
    vadd.i32 q0, q0, q1
    vsub.i32 q2, q2, q3
    vrshl.s32 q0, q0, q2
    bx      r10
    .endm

#else

static inline cortado_codes_mve_t cortado_codes_mve(int32_t multiplier, int32_t shift, int32_t offset)
{
    const cortado_codes_mve_t codes = {multiplier, cortado_max(shift, 0), cortado_min(shift, 0), offset};
    return codes;
}

/* The arguments that every kind of step needs. */
static inline cortado_units_mve_t cortado_units_mve(const cortado_recurrent_t *L, const int8_t *x, const int8_t *before,
                                                    int8_t *after, int16_t *state)
{
    cortado_units_mve_t T;
    T.x = x;
    T.in_c = L->in_c;
    T.weights_x = L->weights_x;
    T.before = before;
    T.units = L->units;
    T.weights_h = L->weights_h;
    T.after = after;
    T.state = state;
    T.table = cortado_sigmoid_table;
    T.codes = cortado_codes_mve(L->out_multiplier, L->out_shift, L->out_offset);
    return T;
}

/* All units of one step. They leave the streams in T behind the last weights. */
void cortado_rnn_units_s8__mve(cortado_units_mve_t *T);
void cortado_gru_units_s8__mve(cortado_units_mve_t *T);
void cortado_lstm_units_s8__mve(cortado_units_mve_t *T);

#endif
#endif /* RECURRENT_UNITS_S8__MVE_H */
