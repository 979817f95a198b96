/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of pooling with vector instructions: pool16_s8__mve.h. They take sixteen channels at a time; lanes
 * past the last channel are neither loaded nor stored.
 *
 *   void cortado_pool16_add_s8__mve(int16_t *sums, const int8_t *in, int32_t step, int32_t pixels, int32_t channels)
 *   void cortado_pool16_max_s8__mve(const cortado_pool16_max_t *P, int8_t *out, int32_t offset, int32_t taps,
 *                                   int32_t pixels)
 *   void cortado_pool16_means_s8__mve(const int16_t *sums, int8_t *out, int32_t channels, const int32_t division[4])
 *
 * Tile: 16 channels. Scratch: none.
 *
 * Sums of sixteen channels are halfwords, those of the even channels before those of the odd ones:
 *
 *   sums[0 .. 7] = channels 0, 2, 4, ... 14    sums[8 .. 15] = channels 1, 3, 5, ... 15
 */
#include "cortado_asm.h"

#if defined(__ARM_FEATURE_MVE)

/* Fields of cortado_pool16_max_t. */
#define POOL_ROWS 0 /* the number of rows is read with it */
#define POOL_STEP 8
#define POOL_STRIDE 12
#define POOL_CHANNELS 16
#define POOL_MIN 20
#define POOL_MAX 24

/* Adds `pixels` > 0 pixels, `step` bytes apart.
 *
 *   r0 sums   r1 in   r2 step   r3 pixels   r4 channels   q0, q1 odd and even channels of a pixel   q2, q3 sums
 */
    function cortado_pool16_add_s8__mve
    push    {r4, lr}
    ldr     r4, [sp, #8]
    vctp.8  r4
    vldrh.16 q2, [r0]
    vldrh.16 q3, [r0, #16]
    dls     lr, r3
    /* One turn: one pixel. */
.Lpool_add_pixel:
    vpst
    vldrbt.8 q0, [r1]
    add     r1, r1, r2
    vmovlb.s8 q1, q0
    vmovlt.s8 q0, q0
    vadd.i16 q2, q2, q1
    vadd.i16 q3, q3, q0
    le      lr, .Lpool_add_pixel
    vstrh.16 q2, [r0]
    vstrh.16 q3, [r0, #16]
    pop     {r4, pc}
    .size   cortado_pool16_add_s8__mve, . - cortado_pool16_add_s8__mve

/* The largest values of a run of `pixels` > 0 outputs whose windows have `taps` columns inside of the image; the
 * first column of the first one is `offset` bytes behind the begin of a row. Rows that are NULL are left out.
 *
 *   r0 P   r1 out   r2 offset of a pixel   r3 taps   r4 rows   r5 rows left   r6 step   r7 in   r8 offset of sixteen
 *   channels   r9 channels left   r10 pixels left   q0 a tap   q1 largest   q2, q3 least and largest output
 */
    function cortado_pool16_max_s8__mve
    push    {r4-r10, lr}
    ldr     r10, [sp, #32]
    ldr     r6, [r0, #POOL_STEP]
    ldr     r4, [r0, #POOL_MIN]
    ldr     r5, [r0, #POOL_MAX]
    vdup.8  q2, r4
    vdup.8  q3, r5
    /* One turn: one pixel. */
.Lpool_max_pixel:
    ldr     r9, [r0, #POOL_CHANNELS]
    mov     r8, r2
    /* One turn: sixteen channels. */
.Lpool_max_channels:
    ldrd    r4, r5, [r0, #POOL_ROWS]
    vctp.8  r9
    vmov    q1, q2
    /* One turn: one row of the window. */
.Lpool_max_row:
    ldr     r7, [r4], #4
    cbz     r7, .Lpool_max_row_done
    add     r7, r7, r8
    wls     lr, r3, .Lpool_max_row_done
    /* One turn: one tap. */
.Lpool_max_tap:
    vpst
    vldrbt.8 q0, [r7]
    add     r7, r7, r6
    vmax.s8 q1, q1, q0
    le      lr, .Lpool_max_tap
.Lpool_max_row_done:
    subs    r5, r5, #1
    bne     .Lpool_max_row
    vmin.s8 q1, q1, q3
    add     r8, r8, #16
    vpst
    vstrbt.8 q1, [r1]
    add     r1, r1, #16
    subs    r9, r9, #16
    bgt     .Lpool_max_channels
    add     r1, r1, r9
    ldr     r4, [r0, #POOL_STRIDE]
    add     r2, r2, r4
    subs    r10, r10, #1
    bne     .Lpool_max_pixel
    pop     {r4-r10, pc}
    .size   cortado_pool16_max_s8__mve, . - cortado_pool16_max_s8__mve

/* Sums to means: division is (half the count, 2^32 / count rounded up, low, high). The rounded
 * quotient is exact for counts up to 256: |sum| + half < 129 * count, and 129 * count^2 < 2^32.
 *
 *   r0 sums   r1 out   r2 channels   r3 division, then r4 half   r5 inverse   r6 low   r7 high
 *   q2 channels 0, 4, 8, 12   q3 2, 6, 10, 14   q4 1, 5, 9, 13   q5 3, 7, 11, 15   q6 signs   q7 inverse
 */
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
    /* |sum| + half, times the inverse, with the sum's sign. */
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
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
