/* SPDX-License-Identifier: Apache-2.0
 *
 * Three sums of products to rows of a gate, on small cores: gates_s8__scalar_dsp.c.
 *
 *   const int8_t *cortado_gate_rows_s8__scalar(const int8_t *stream, int32_t *gates)
 *
 * Tile: 3 rows. Scratch: none.
 *
 *   r0 sum   r4, r5 multiplier   r6 gates   r7 stream   r8 shifts   r9 no offset   r10 end of the gates   r12 2^14
 */
#include "cortado_asm.h"

#if defined(__thumb__) && CORTADO_SMALL_CORE

    function cortado_gate_rows_s8__scalar
    push    {r4-r7, lr}
    mov     r4, r8
    mov     r5, r9
    mov     r6, r10
    push    {r4-r6}
    movs    r7, r0
    movs    r6, r1
    movs    r2, #0
    mov     r9, r2
    adds    r1, r1, #12
    mov     r10, r1
    movs    r2, #1
    lsls    r2, r2, #14
    mov     r12, r2
    /* One turn: one row. */
.Lgate_row:
    ldmia   r7!, {r1, r4, r5}
    mov     r8, r5
    lsrs    r5, r4, #16
    sxth    r4, r4
    ldr     r0, [r6]
    adds    r0, r0, r1
    scale_small
    stmia   r6!, {r0}
    cmp     r6, r10
    bne     .Lgate_row
    movs    r0, r7
    pop     {r4-r6}
    mov     r8, r4
    mov     r9, r5
    mov     r10, r6
    pop     {r4-r7, pc}
    .size   cortado_gate_rows_s8__scalar, . - cortado_gate_rows_s8__scalar
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
