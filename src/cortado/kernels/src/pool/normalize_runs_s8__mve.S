/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of bytes of a normalized group with vector instructions: normalize_runs_s8__mve.h.
 *
 *   void cortado_normalize_sums_s8__mve(const int8_t *in, int32_t n, int32_t sums[2])
 *   void cortado_normalize_run_s8__mve(const cortado_normalize_run_t *R, const int8_t *in, int8_t *out, int32_t n)
 *
 * Tile: 16 elements of sums, 4 of outputs. Scratch: none.
 *
 * An element is read before its place is written: out may be in. VRMULH rounds the upper word of a product as the
 * portable kernel does.
 *
 *   r1 in   r2 out   r3 elements left   r4, r5 scale, offset   r6, r7 step, minus_middle   r12 shift   lr turns left
 *   q0 deviations, then outputs   q1 scales   q2 offsets   q3 root   q4, q5 limits
 */
#include "cortado_asm.h"
#include "normalize_runs_s8__mve.h"

#if defined(__ARM_FEATURE_MVE)

    function cortado_normalize_sums_s8__mve
    push    {r4, lr}
    ldrd    r4, r3, [r2]
    mov     r12, r3
    wlstp.8 lr, r1, .Lsums_made
    /* One turn: sixteen elements. */
.Lsums_sixteen:
    vldrb.8 q0, [r0], #16
    vaddva.s8 r4, q0
    vmladava.s8 r12, q0, q0
    letp    lr, .Lsums_sixteen
.Lsums_made:
    strd    r4, r12, [r2]
    pop     {r4, pc}
    .size   cortado_normalize_sums_s8__mve, . - cortado_normalize_sums_s8__mve

/* Deviations in q0, scales in q1 and offsets in q2 to outputs. */
    .macro put_four
    vrmulh.s32 q0, q0, q1
    vadd.i32 q0, q0, q2
    vshl.s32 q0, r12
    vmax.s32 q0, q0, q4
    vmin.s32 q0, q0, q5
    vstrb.32 q0, [r2], #4
    .endm

    function cortado_normalize_run_s8__mve
    push    {r4-r7, lr}
    sub     sp, sp, #4
    vpush   {d8-d11}
    ldrd    r4, r5, [r0, #RUN_LOW]
    vdup.32 q4, r4
    vdup.32 q5, r5
    ldrd    r6, r7, [r0, #RUN_STEP]
    ldrd    r4, r12, [r0, #RUN_ROOT]
    vdup.32 q3, r4
    ldrd    r4, r5, [r0, #RUN_SCALE]
    ldr     r0, [r0, #RUN_SEVERAL]
    cbz     r0, .Lrun_alike
    wlstp.32 lr, r3, .Lrun_return
    /* One turn: four elements, each with its own scale and offset. */
.Lrun_several:
    vldrb.s32 q0, [r1], #4
    vldrw.32 q1, [r4], #16
    vmul.i32 q0, q0, r6
    vldrw.32 q2, [r5], #16
    vrmulh.s32 q1, q1, q3
    vadd.i32 q0, q0, r7
    put_four
    letp    lr, .Lrun_several
    b       .Lrun_return
.Lrun_alike:
    ldr     r4, [r4]
    ldr     r5, [r5]
    vdup.32 q1, r4
    vdup.32 q2, r5
    vrmulh.s32 q1, q1, q3
    wlstp.32 lr, r3, .Lrun_return
    /* One turn: four elements. */
.Lrun_four:
    vldrb.s32 q0, [r1], #4
    vmul.i32 q0, q0, r6
    vadd.i32 q0, q0, r7
    put_four
    letp    lr, .Lrun_four
.Lrun_return:
    vpop    {d8-d11}
    add     sp, sp, #4
    pop     {r4-r7, pc}
    .size   cortado_normalize_run_s8__mve, . - cortado_normalize_run_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
