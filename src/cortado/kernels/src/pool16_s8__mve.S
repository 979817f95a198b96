/* SPDX-License-Identifier: Apache-2.0
 *
 * Inner loops of pooling with vector instructions: see pool16_s8__mve.h.
 */
#include "cortado_asm.h"

#if defined(__ARM_FEATURE_MVE)

/* void cortado_pool16_add_s8__mve(int16_t *sums, const int8_t *in, int32_t step, int32_t pixels, int32_t channels)
 *
 * Adds up to sixteen channels of `pixels` > 0 pixels, `step` bytes apart: those of even channels to sums[0..7], those of
 * odd ones to sums[8..15]. */
    function cortado_pool16_add_s8__mve
    push    {r4, lr}
    ldr     r4, [sp, #8]
    vctp.8  r4
    vldrh.16 q2, [r0]
    vldrh.16 q3, [r0, #16]
    dls     lr, r3
1:  vpst
    vldrbt.8 q0, [r1]
    add     r1, r1, r2
    vmovlb.s8 q1, q0
    vmovlt.s8 q0, q0
    vadd.i16 q2, q2, q1
    vadd.i16 q3, q3, q0
    le      lr, 1b
    vstrh.16 q2, [r0]
    vstrh.16 q3, [r0, #16]
    pop     {r4, pc}
    .size   cortado_pool16_add_s8__mve, . - cortado_pool16_add_s8__mve

/* void cortado_pool16_max_s8__mve(int8_t *largest, const int8_t *in, int32_t step, int32_t pixels, int32_t channels)
 *
 * The same for the largest value. */
    function cortado_pool16_max_s8__mve
    push    {r4, lr}
    ldr     r4, [sp, #8]
    vctp.8  r4
    vpst
    vldrbt.8 q1, [r0]
    dls     lr, r3
1:  vpst
    vldrbt.8 q0, [r1]
    add     r1, r1, r2
    vmax.s8 q1, q1, q0
    le      lr, 1b
    vpst
    vstrbt.8 q1, [r0]
    pop     {r4, pc}
    .size   cortado_pool16_max_s8__mve, . - cortado_pool16_max_s8__mve

/* void cortado_pool16_means_s8__mve(const int16_t *sums, int8_t *out, int32_t channels, const int32_t division[4])
 *
 * Sums of up to sixteen channels to means: division is (half the count, 2^32 / count rounded up, low, high). The rounded
 * quotient is exact for counts up to 256: |sum| + half < 129 * count, and 129 * count^2 < 2^32. */
    function cortado_pool16_means_s8__mve
    push    {r4-r7, lr}
    vpush   {d8-d15}
    ldm     r3, {r4-r7}
    vdup.32 q7, r5
    vldrh.16 q0, [r0]
    vldrh.16 q1, [r0, #16]
    vmovlb.s16 q2, q0
    vmovlt.s16 q3, q0
    vmovlb.s16 q4, q1
    vmovlt.s16 q5, q1
    .irp    q, q2, q3, q4, q5
    vshr.s32 q6, \q, #31
    vabs.s32 \q, \q
    vadd.i32 \q, \q, r4
    vmulh.u32 \q, \q, q7
    veor    \q, \q, q6
    vsub.i32 \q, \q, q6
    .endr
    vmovnb.i32 q2, q2
    vmovnt.i32 q2, q3
    vmovnb.i32 q4, q4
    vmovnt.i32 q4, q5
    vqmovnb.s16 q2, q2
    vqmovnt.s16 q2, q4
    vdup.8  q0, r6
    vdup.8  q1, r7
    vmax.s8 q2, q2, q0
    vmin.s8 q2, q2, q1
    vctp.8  r2
    vpst
    vstrbt.8 q2, [r1]
    vpop    {d8-d15}
    pop     {r4-r7, pc}
    .size   cortado_pool16_means_s8__mve, . - cortado_pool16_means_s8__mve

/* void cortado_sum_rows_s8__mve(int32_t *acc, const int8_t *in, int32_t pixels, int32_t channels)
 *
 * Eight channels at a time in sums of 16 bits, which hold 256 pixels; then, or if there are more, four of 32 bits. */
    function cortado_sum_rows_s8__mve
    push    {r4-r6, lr}
    sub     sp, sp, #16
    mov     r5, r3
    mov     r6, sp
    cmp     r2, #256
    bgt     4f
    subs    r3, r3, #8
    blt     3f
1:  mov     r4, r1
    vmov.i16 q0, #0
    dls     lr, r2
2:  vldrb.s16 q1, [r4]
    add     r4, r4, r5
    vadd.i16 q0, q0, q1
    le      lr, 2b
    /* Through memory, so that they are widened in order. */
    vstrh.16 q0, [r6]
    vldrh.s32 q0, [r6]
    vldrh.s32 q1, [r6, #8]
    vldrw.32 q2, [r0]
    vldrw.32 q3, [r0, #16]
    vadd.i32 q2, q2, q0
    vadd.i32 q3, q3, q1
    vstrw.32 q2, [r0], #16
    vstrw.32 q3, [r0], #16
    add     r1, r1, #8
    subs    r3, r3, #8
    bge     1b
3:  adds    r3, r3, #8
    beq     6f
4:  vctp.32 r3
    mov     r4, r1
    vpst
    vldrwt.32 q0, [r0]
    dls     lr, r2
5:  vpst
    vldrbt.s32 q1, [r4]
    add     r4, r4, r5
    vadd.i32 q0, q0, q1
    le      lr, 5b
    vpst
    vstrwt.32 q0, [r0], #16
    add     r1, r1, #4
    subs    r3, r3, #4
    bgt     4b
6:  add     sp, sp, #16
    pop     {r4-r6, pc}
    .size   cortado_sum_rows_s8__mve, . - cortado_sum_rows_s8__mve

/* void cortado_means_s8__mve(const int32_t *acc, int8_t *out, int32_t channels, int32_t count)
 *
 * As in cortado_pool16_means_s8__mve, exact for counts up to 5770. By 1: (|sum| + 1) * (2^32 - 1) / 2^32. */
    function cortado_means_s8__mve
    push    {r4, lr}
    mov     r12, #-1
    udiv    r12, r12, r3
    lsrs    r3, r3, #1
    ite     eq
    moveq   r3, #1
    addne   r12, r12, #1
    vdup.32 q2, r12
    wlstp.32 lr, r2, 2f
1:  vldrw.32 q0, [r0], #16
    vshr.s32 q1, q0, #31
    vabs.s32 q0, q0
    vadd.i32 q0, q0, r3
    vmulh.u32 q0, q0, q2
    veor    q0, q0, q1
    vsub.i32 q0, q0, q1
    vstrb.32 q0, [r1], #4
    letp    lr, 1b
2:  pop     {r4, pc}
    .size   cortado_means_s8__mve, . - cortado_means_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
