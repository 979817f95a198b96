/* SPDX-License-Identifier: Apache-2.0
 *
 * One step of recurrent layers with vector instructions (MVE), four units at a time: what its three kinds share, for
 * codes of 8 bits and of 16. Internal.
 *
 * A stream holds, for each four units gate after gate, with zeros for units and products that are not there,
 *
 *   | biases 4 x 4 | a | b | c | d | ... | multipliers 4 x 4 | shifts 4 x 4 |
 *
 * where a to d are a vector's products of each row, 16 of 8-bit codes and 8 of 16-bit ones, as often as products need;
 * and begins at a multiple of 4 bytes. What depends on codes is in recurrent_units_s8__mve.h and _s16__mve.h: macros
 * `path`, `path_subroutine`, `store` and `store_codes`.
 */
#ifndef RECURRENT_UNITS__MVE_H
#define RECURRENT_UNITS__MVE_H

#include "cortado_offsets.h"

/* Members of cortado_units_mve_t, for the assembly. */
#define UNITS_MVE_X 0       /* in_c, weights_x and sum_shift_x are read with it */
#define UNITS_MVE_BEFORE 16 /* units, weights_h and sum_shift_h are read with it */
#define UNITS_MVE_STREAM (UNITS_MVE_X + 8) /* weights_x, and as far behind `before` weights_h */
#define UNITS_MVE_AFTER 32  /* state is read with it */
#define UNITS_MVE_TABLE 40
#define UNITS_MVE_CODES 44
#define UNITS_MVE_RELU 60
#define UNITS_MVE_CELLS 64 /* cell_left is read with it */
#define UNITS_MVE_OUT 72
#define UNITS_MVE_GIVEN 76

#if defined(__ASSEMBLER__)

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

/* How values become codes: requant(value) + offset; of 16-bit codes without offset. */
typedef struct {
    int32_t multiplier, left, right, offset; /* right: negative */
} cortado_codes_mve_t;

typedef struct {
    const void *x;
    int32_t in_c;
    const int8_t *weights_x;
    int32_t sum_shift_x; /* 16-bit codes */
    const void *before;
    int32_t units;
    const int8_t *weights_h;
    int32_t sum_shift_h;
    void *after;
    int16_t *state;
    const uint16_t *table;
    cortado_codes_mve_t codes;
    int32_t relu;                    /* RNN */
    int32_t product_left, cell_left; /* shifts of a GRU's n or an LSTM's i * g, and of its cells before their tanh */
    void *out;                       /* LSTM: where the cells' codes go, or NULL */
    cortado_codes_mve_t given;       /* LSTM */
} cortado_units_mve_t;

CORTADO_AT(cortado_units_mve_t, x, UNITS_MVE_X);
CORTADO_AT(cortado_units_mve_t, in_c, UNITS_MVE_X + 4);
CORTADO_AT(cortado_units_mve_t, weights_x, UNITS_MVE_X + UNITS_MVE_STREAM);
CORTADO_AT(cortado_units_mve_t, sum_shift_x, UNITS_MVE_X + 12);
CORTADO_AT(cortado_units_mve_t, before, UNITS_MVE_BEFORE);
CORTADO_AT(cortado_units_mve_t, units, UNITS_MVE_BEFORE + 4);
CORTADO_AT(cortado_units_mve_t, weights_h, UNITS_MVE_BEFORE + UNITS_MVE_STREAM);
CORTADO_AT(cortado_units_mve_t, sum_shift_h, UNITS_MVE_BEFORE + 12);
CORTADO_AT(cortado_units_mve_t, after, UNITS_MVE_AFTER);
CORTADO_AT(cortado_units_mve_t, state, UNITS_MVE_AFTER + 4);
CORTADO_AT(cortado_units_mve_t, table, UNITS_MVE_TABLE);
CORTADO_AT(cortado_units_mve_t, codes, UNITS_MVE_CODES);
CORTADO_AT(cortado_units_mve_t, relu, UNITS_MVE_RELU);
CORTADO_AT(cortado_units_mve_t, product_left, UNITS_MVE_CELLS);
CORTADO_AT(cortado_units_mve_t, cell_left, UNITS_MVE_CELLS + 4);
CORTADO_AT(cortado_units_mve_t, out, UNITS_MVE_OUT);
CORTADO_AT(cortado_units_mve_t, given, UNITS_MVE_GIVEN);

#endif
#endif /* RECURRENT_UNITS__MVE_H */
