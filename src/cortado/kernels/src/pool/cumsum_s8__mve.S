/* SPDX-License-Identifier: Apache-2.0
 *
 * Running sums along rows with vector instructions.
 *
 *   void cortado_cumsum_s8__mve(const cortado_cumsum_t *L, const int8_t *in, int8_t *out, int32_t rows)
 *
 * Tile: 4 elements. Scratch: none.
 *
 * Four elements become their running sums by adding them to themselves moved by one place, then by two; VSHLC moves a
 * vector by 32 bits, of which those that come in are 0. An element is read before its place is written: out may be in.
 *
 *   r0 out of this row   r1 in   r2 out   r3 in of this row   r4 length   r5 -in_zero   r6 left shift
 *   r7 output zero point   r8 multiplier   r9 right shift, negative   r10 sum of the row so far   r11 what moves in
 *   r12 rows left   lr turns left
 *   q0 sums, then outputs   q1 sums moved, then what rounds   q2 right shift   q3, q4 limits
 */
#include "cortado_asm.h"
#include "cortado_offsets.h"

#if defined(__ARM_FEATURE_MVE)

    function cortado_cumsum_s8__mve
    push    {r4-r12, lr}
    vpush   {d8-d9}
    ldm     r0, {r4-r9} /* from CORTADO_CUMSUM_LENGTH, which is 0, to out_shift */
    rsb     r5, r5, #0
    cmp     r9, #0
    itt     gt
    addgt   r6, r6, r9
    movgt   r9, #0
    vdup.32 q2, r9
    mov     r12, #127
    vdup.32 q4, r12
    mvn     r12, r12
    vdup.32 q3, r12
    movs    r12, r3
    ble     .Lcumsum_return
    /* One turn: one row. */
.Lcumsum_row:
    mov     r3, r1
    mov     r0, r2
    mov     r10, #0
    wlstp.32 lr, r4, .Lcumsum_made
    /* One turn: up to four elements. */
.Lcumsum_four:
    vldrb.s32 q0, [r3], #4
    mov     r11, #0
    vadd.i32 q0, q0, r5
    vmov    q1, q0
    vshlc   q1, r11, #32
    mov     r11, #0
    vadd.i32 q0, q0, q1
    vmov    q1, q0
    vshlc   q1, r11, #32
    mov     r11, #0
    vshlc   q1, r11, #32
    vadd.i32 q0, q0, r10
    vadd.i32 q0, q0, q1
    vmov.32 r10, q0[3]
    vshl.s32 q0, r6
    vqrdmulh.s32 q0, q0, r8
    /* Ties go away from zero: negative values are decremented before a right shift, by 0 if there is none. */
    vand    q1, q0, q2
    vshr.s32 q1, q1, #31
    vadd.i32 q0, q0, q1
    vrshl.s32 q0, r9
    vadd.i32 q0, q0, r7
    vmax.s32 q0, q0, q3
    vmin.s32 q0, q0, q4
    vstrb.32 q0, [r0], #4
    letp    lr, .Lcumsum_four
.Lcumsum_made:
    add     r1, r1, r4
    add     r2, r2, r4
    subs    r12, r12, #1
    bgt     .Lcumsum_row
.Lcumsum_return:
    vpop    {d8-d9}
    pop     {r4-r12, pc}
    .size   cortado_cumsum_s8__mve, . - cortado_cumsum_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
