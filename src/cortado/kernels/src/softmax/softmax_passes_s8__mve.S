/* SPDX-License-Identifier: Apache-2.0
 *
 * The passes of softmax and of its logarithm over one row, with vector instructions and exponentials from a table:
 * softmax_table_s8__mve.c, log_softmax_s8__mve.c.
 *
 *   int32_t cortado_softmax_largest_s8__mve(const int8_t *in, int32_t n)
 *   int32_t cortado_softmax_sum_s8__mve(const int8_t *in, int32_t n, const int32_t *table, const int32_t limits[2])
 *   void cortado_softmax_outputs_s8__mve(const int8_t *in, int8_t *out, int32_t n, const int32_t *table,
 *                                        const int32_t factors[4])
 *   void cortado_softmax_logarithms_s8__mve(const int8_t *in, int8_t *out, int32_t n, const int32_t numbers[6])
 *
 * Tile: 16 elements for the largest, 4 for the others. Scratch: none.
 *
 * table[d] is exp of the difference -d as Q31; the last entry, limits[1] or factors[1], is a 0 for all differences
 * beyond.
 */
#include "cortado_asm.h"

#if defined(__ARM_FEATURE_MVE)

/* The largest of n values.
 *
 *   r0 largest   r1 n   r2 in   q0 sixteen values
 */
    function cortado_softmax_largest_s8__mve
    push    {r4, lr}
    mov     r2, r0
    mvn     r0, #127
    wlstp.8 lr, r1, .Llargest_return
    /* One turn: sixteen values. */
.Llargest_sixteen:
    vldrb.8 q0, [r2], #16
    vmaxv.s8 r0, q0
    letp    lr, .Llargest_sixteen
.Llargest_return:
    sxtb    r0, r0
    pop     {r4, pc}
    .size   cortado_softmax_largest_s8__mve, . - cortado_softmax_largest_s8__mve

/* The sum of the exponentials, with 12 integer bits. limits is the largest input and the last entry of the table.
 *
 *   r0 in   r1 n   r2 table   r12 sum   q0 differences   q1 largest   q2 last entry   q3 exponentials
 */
    function cortado_softmax_sum_s8__mve
    push    {r4, r5, r6, lr}
    ldrd    r4, r5, [r3]
    vdup.32 q1, r4
    vdup.32 q2, r5
    mov     r12, #0
    wlstp.32 lr, r1, .Lsum_return
    /* One turn: four values; differences beyond the last entry take that one. */
.Lsum_four:
    vldrb.s32 q0, [r0], #4
    vsub.i32 q0, q1, q0
    vmin.u32 q0, q0, q2
    vldrw.u32 q3, [r2, q0, uxtw #2]
    vrshr.s32 q3, q3, #12
    vaddva.s32 r12, q3
    letp    lr, .Lsum_four
.Lsum_return:
    mov     r0, r12
    pop     {r4, r5, r6, pc}
    .size   cortado_softmax_sum_s8__mve, . - cortado_softmax_sum_s8__mve

/* Exponentials to outputs. factors is the largest input, the last entry of the table, the multiplier and the right
 * shift, negated.
 *
 *   r0 in   r1 out   r2 n   r3 table   r5 -128   r6 multiplier   r7 shift   r8 factors
 *   q0 differences   q1 largest   q2 last entry   q3 exponentials   q4 127
 */
    function cortado_softmax_outputs_s8__mve
    push    {r4-r8, lr}
    ldr     r8, [sp, #24]
    ldm     r8, {r4-r7}
    vpush   {d8-d9}
    vdup.32 q1, r4
    vdup.32 q2, r5
    mov     r4, #127
    mvn     r5, #127
    vdup.32 q4, r4
    wlstp.32 lr, r2, .Loutputs_return
    /* One turn: four outputs. Nothing is negative before -128 is added, so ties away from zero are ties up. */
.Loutputs_four:
    vldrb.s32 q0, [r0], #4
    vsub.i32 q0, q1, q0
    vmin.u32 q0, q0, q2
    vldrw.u32 q3, [r3, q0, uxtw #2]
    vqrdmulh.s32 q3, q3, r6
    vrshl.s32 q3, r7
    vadd.i32 q3, q3, r5
    vmin.s32 q3, q3, q4
    vstrb.32 q3, [r1], #4
    letp    lr, .Loutputs_four
.Loutputs_return:
    vpop    {d8-d9}
    pop     {r4-r8, pc}
    .size   cortado_softmax_outputs_s8__mve, . - cortado_softmax_outputs_s8__mve

/* Inputs to logarithms: the zero point minus (factor * input + offset) / 2^n, rounded down. numbers is the factor, the
 * offset, -n, the zero point and the limits.
 *
 *   r0 in   r1 out   r2 n   r3 numbers   r4 factor   r5 offset   r6 shift
 *   q0 inputs, then outputs   q1 zero point   q2, q3 limits   q4 factor
 */
    function cortado_softmax_logarithms_s8__mve
    push    {r4-r9, lr}
    sub     sp, sp, #4
    ldm     r3, {r4-r9}
    vpush   {d8-d9}
    vdup.32 q4, r4
    vdup.32 q1, r7
    vdup.32 q2, r8
    vdup.32 q3, r9
    wlstp.32 lr, r2, .Llogarithms_return
    /* One turn: four outputs. */
.Llogarithms_four:
    vldrb.s32 q0, [r0], #4
    vmlas.s32 q0, q4, r5
    vshl.s32 q0, r6
    vsub.i32 q0, q1, q0
    vmax.s32 q0, q0, q2
    vmin.s32 q0, q0, q3
    vstrb.32 q0, [r1], #4
    letp    lr, .Llogarithms_four
.Llogarithms_return:
    vpop    {d8-d9}
    add     sp, sp, #4
    pop     {r4-r9, pc}
    .size   cortado_softmax_logarithms_s8__mve, . - cortado_softmax_logarithms_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
