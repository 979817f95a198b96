/* SPDX-License-Identifier: Apache-2.0
 *
 * What depends on codes of 16 bits in recurrent_units__mve.h: without zero points, shifts of paths are negative, and
 * multipliers with a shift of 0 or more are at least 2^30. Internal.
 */
#ifndef RECURRENT_UNITS_S16__MVE_H
#define RECURRENT_UNITS_S16__MVE_H

#include "recurrent_units__mve.h"

#if defined(__ASSEMBLER__)

/* Four rows of one path, of the input or of the state before: \at is where its vector, its length, its stream and its
 * sum_shift stand. Result in q0; r0 to r6, r10, lr, q1, q2 and q3 are lost. */
    .macro path at
    ldm     \at, {r1, r3, r5, r10}
    bl      .Lpath
    str     r5, [\at, #UNITS_MVE_STREAM]
    .endm

/* q0 to codes by the factor at r8 + \factor; the lanes that VPR lets pass are stored at \to, a register below r8. r0,
 * r2 and r4 are lost. What leaves 32 bits by the shift to the left leaves 16 bits as a code, since its multiplier is
 * 2^30 or more; the product's lower half is dropped before the one rounding, which it can't change. */
    .macro store_codes factor, to
    ldrd    r0, r2, [r8, #\factor]
    ldr     r4, [r8, #\factor + 8]
    vqshl.s32 q0, r2
    vqdmulh.s32 q0, q0, r0
    vrshl.s32 q0, r4
    store   \to
    .endm

/* q0, saturated to 16 bits, by those lanes. */
    .macro store to
    vqmovnb.s32 q0, q0
    vpst
    vstrht.32 q0, [\to], #8
    .endm

/* What macro `path` calls: r1 vector, r3 its length, r5 stream, r10 sum_shift. Sums begin with the biases; where they
 * may leave 32 bits they have 64 and are divided, ties up. VMLADAVA sums into an even core register. */
    .macro path_subroutine
.Lpath:
    cmp     r10, #0
    bne     .Lpath_long
    mov     r10, lr
    ldrd    r0, r2, [r5], #8
    ldrd    r4, r6, [r5], #8
    dlstp.16 lr, r3
    /* One turn: up to eight products of each row. */
.Lpath_eight:
    vldrh.u16 q0, [r1], #16
    vldrb.s16 q1, [r5], #8
    vmladava.s16 r0, q0, q1
    vldrb.s16 q2, [r5], #8
    vmladava.s16 r2, q0, q2
    vldrb.s16 q3, [r5], #8
    vmladava.s16 r4, q0, q3
    vldrb.s16 q1, [r5], #8
    vmladava.s16 r6, q0, q1
    letp    lr, .Lpath_eight
.Lpath_scaled:
    vldrw.32 q1, [r5], #16
    vmov    d0, r0, r2
    vldrw.32 q2, [r5], #16
    vmov    d1, r4, r6
    /* All shifts go to the right: the product's lower half can't change the rounding. */
    vqdmulh.s32 q0, q0, q1
    vrshl.s32 q0, q0, q2
    bx      r10
.Lpath_long:
    push    {r7, r9, r12, lr}
    mov     r12, r1
    dlstp.16 lr, r3
    ldrd    r0, r2, [r5], #8
    ldrd    r4, r6, [r5], #8
    asr     r1, r0, #31
    asr     r3, r2, #31
    asr     r7, r4, #31
    asr     r9, r6, #31
.Lpath_long_eight:
    vldrh.u16 q0, [r12], #16
    vldrb.s16 q1, [r5], #8
    vmlaldava.s16 r0, r1, q0, q1
    vldrb.s16 q2, [r5], #8
    vmlaldava.s16 r2, r3, q0, q2
    vldrb.s16 q3, [r5], #8
    vmlaldava.s16 r4, r7, q0, q3
    vldrb.s16 q1, [r5], #8
    vmlaldava.s16 r6, r9, q0, q1
    letp    lr, .Lpath_long_eight
    sqrshrl r0, r1, #64, r10
    sqrshrl r2, r3, #64, r10
    sqrshrl r4, r7, #64, r10
    sqrshrl r6, r9, #64, r10
    pop     {r7, r9, r12, lr}
    mov     r10, lr
    b       .Lpath_scaled
    .endm

#else

/* Of one rounding at the end: a shift to the left that the value may saturate in, and one to the right by 1 or more. */
static inline cortado_codes_mve_t cortado_wide_codes_mve(int32_t multiplier, int32_t shift)
{
    const cortado_codes_mve_t codes = {multiplier, cortado_max(shift + 1, 0), cortado_min(shift, -1), 0};
    return codes;
}

/* The arguments that every kind of step needs. */
static inline cortado_units_mve_t cortado_wide_units_mve(const cortado_recurrent_s16_t *L, const int16_t *x,
                                                         const int16_t *before, int16_t *after, int16_t *state)
{
    cortado_units_mve_t T;
    T.x = x;
    T.in_c = L->in_c;
    T.weights_x = L->weights_x;
    T.sum_shift_x = L->sum_shift_x;
    T.before = before;
    T.units = L->units;
    T.weights_h = L->weights_h;
    T.sum_shift_h = L->sum_shift_h;
    T.after = after;
    T.state = state;
    T.table = cortado_sigmoid_table;
    T.codes = cortado_wide_codes_mve(L->out_multiplier, L->out_shift);
    return T;
}

/* All units of one step. They leave the streams in T behind the last weights. */
void cortado_rnn_units_s16__mve(cortado_units_mve_t *T);
void cortado_gru_units_s16__mve(cortado_units_mve_t *T);
void cortado_lstm_units_s16__mve(cortado_units_mve_t *T);

#endif
#endif /* RECURRENT_UNITS_S16__MVE_H */
