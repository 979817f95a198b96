/* SPDX-License-Identifier: Apache-2.0
 *
 * One step of recurrent layers with vector instructions (MVE), four units at a time: what its three kinds share.
 * Internal.
 *
 * A stream holds, for each four units gate after gate, with zeros for units and products that are not there,
 *
 *   | biases 4 x 4 | a 16 | b 16 | c 16 | d 16 | ... | multipliers 4 x 4 | shifts 4 x 4 |
 *
 * the sixteens as often as products need, and begins at a multiple of 4 bytes.
 */
#ifndef RECURRENT_UNITS_S8__MVE_H
#define RECURRENT_UNITS_S8__MVE_H

#include "cortado_offsets.h"

/* Members of cortado_units_mve_t, for the assembly. */
#define UNITS_MVE_X 0       /* in_c and weights_x are read with it */
#define UNITS_MVE_BEFORE 12 /* units and weights_h are read with it */
#define UNITS_MVE_STREAM (UNITS_MVE_X + 8) /* weights_x, and as far behind `before` weights_h */
#define UNITS_MVE_AFTER 24  /* state is read with it */
#define UNITS_MVE_TABLE 32
#define UNITS_MVE_CODES 36
#define UNITS_MVE_RELU 52
#define UNITS_MVE_CELLS 56 /* cell_left is read with it */
#define UNITS_MVE_OUT 64
#define UNITS_MVE_GIVEN 68

#if defined(__ASSEMBLER__)

/* Four rows of one path, of the input or of the state before: \at is where its vector, its length and its stream
 * stand. Result in q0; r0 to r6, r10, lr, q1, q2 and q3 are lost. */
    .macro path at
    ldm     \at, {r1, r3, r5}
    bl      .Lpath
    str     r5, [\at, #UNITS_MVE_STREAM]
    .endm

/* Both paths of a gate whose sum is all that counts; \other is lost. */
    .macro gate other
    path    r8
    vmov    \other, q0
    path    r9
    vadd.i32 q0, q0, \other
    .endm

/* To 16 bits, saturated. */
    .macro saturate values
    vqmovnb.s32 \values, \values
    vmovlb.s16 \values, \values
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
    store_bytes \to
    .endm

/* q0, saturated to 8 bits, by those lanes. */
    .macro store_bytes to
    vqmovnb.s32 q0, q0
    vqmovnb.s16 q0, q0
    vpst
    vstrbt.32 q0, [\to], #4
    .endm

/* From T, r0: where the two paths stand in r8 and r9, units left in r11, what is written in r12 and r7. */
    .macro enter
    push    {r4-r11, lr}
    vpush   {d8-d13}
    mov     r8, r0
    add     r9, r0, #UNITS_MVE_BEFORE
    ldr     r11, [r9, #4]
    ldrd    r12, r7, [r8, #UNITS_MVE_AFTER]
    .endm

    .macro leave
    vpop    {d8-d13}
    pop     {r4-r11, pc}
    .endm

/* q0 to the table's value there with 23 fractional bits, interpolated; q1 to q3 and r2 are lost, r0 is 2^15. */
    .macro interpolate
    saturate q0
    mov     r0, #32768
    vadd.i32 q0, q0, r0
    ldr     r2, [r8, #UNITS_MVE_TABLE]
    vshr.u32 q1, q0, #7
    vldrh.u32 q2, [r2, q1, uxtw #1]
    add     r2, r2, #2
    vldrh.u32 q3, [r2, q1, uxtw #1]
    vmov.i32 q1, #127
    vand    q0, q0, q1
    vsub.i32 q3, q3, q2
    vmul.i32 q0, q0, q3
    vshl.i32 q2, q2, #7
    vadd.i32 q0, q0, q2
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

/* sigmoid and tanh of q0, saturated first, with 15 fractional bits. */
    .macro sigmoid_subroutine
.Lsigmoid:
    interpolate
    vrshr.s32 q0, q0, #8
    saturate q0
    bx      lr
    .endm

    .macro tanh_subroutine
.Ltanh:
    interpolate
    vrshr.s32 q0, q0, #7
    vsub.i32 q0, q0, r0
    saturate q0
    bx      lr
    .endm

#else

#include "cortado.h"
#include "cortado_math.h"
#include "cortado_sigmoid.h"

/* How values become codes: requant(value) + offset. */
typedef struct {
    int32_t multiplier, left, right, offset; /* right: negative */
} cortado_codes_mve_t;

typedef struct {
    const int8_t *x;
    int32_t in_c;
    const int8_t *weights_x;
    const int8_t *before;
    int32_t units;
    const int8_t *weights_h;
    int8_t *after;
    int16_t *state;
    const uint16_t *table;
    cortado_codes_mve_t codes;
    int32_t relu;                    /* RNN */
    int32_t product_left, cell_left; /* shifts of a GRU's n or an LSTM's i * g, and of its cells before their tanh */
    int8_t *out;                     /* LSTM: where the cells' codes go, or NULL */
    cortado_codes_mve_t given;       /* LSTM */
} cortado_units_mve_t;

CORTADO_AT(cortado_units_mve_t, x, UNITS_MVE_X);
CORTADO_AT(cortado_units_mve_t, in_c, UNITS_MVE_X + 4);
CORTADO_AT(cortado_units_mve_t, weights_x, UNITS_MVE_X + UNITS_MVE_STREAM);
CORTADO_AT(cortado_units_mve_t, before, UNITS_MVE_BEFORE);
CORTADO_AT(cortado_units_mve_t, units, UNITS_MVE_BEFORE + 4);
CORTADO_AT(cortado_units_mve_t, weights_h, UNITS_MVE_BEFORE + UNITS_MVE_STREAM);
CORTADO_AT(cortado_units_mve_t, after, UNITS_MVE_AFTER);
CORTADO_AT(cortado_units_mve_t, state, UNITS_MVE_AFTER + 4);
CORTADO_AT(cortado_units_mve_t, table, UNITS_MVE_TABLE);
CORTADO_AT(cortado_units_mve_t, codes, UNITS_MVE_CODES);
CORTADO_AT(cortado_units_mve_t, relu, UNITS_MVE_RELU);
CORTADO_AT(cortado_units_mve_t, product_left, UNITS_MVE_CELLS);
CORTADO_AT(cortado_units_mve_t, cell_left, UNITS_MVE_CELLS + 4);
CORTADO_AT(cortado_units_mve_t, out, UNITS_MVE_OUT);
CORTADO_AT(cortado_units_mve_t, given, UNITS_MVE_GIVEN);

static inline cortado_codes_mve_t cortado_codes_mve(int32_t multiplier, int32_t shift, int32_t offset)
{
    const cortado_codes_mve_t codes = {multiplier, cortado_max(shift, 0), cortado_min(shift, 0), offset};
    return codes;
}

/* What a step of every kind needs. */
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
