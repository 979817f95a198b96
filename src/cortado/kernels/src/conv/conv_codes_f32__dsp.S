/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs in float32, before their bounds, of weights that are codes: for 8 channels of a pixel and for 8 of two, with
 * a float unit: conv_codes_f32__dsp.h.
 *
 *   void cortado_conv_codes8_f32__dsp(const cortado_tile_f32_t *T, float *sums)
 *   void cortado_conv_codes8x2_f32__dsp(const cortado_tile_f32_t *T, float *sums)
 *
 * Tile: 1 or 2 pixels x 8 channels. Scratch: none.
 *
 * A product and a sum are two instructions: a fused one would round once. Eight codes are loaded one behind the other,
 * as that is fastest on an M4, and are numbers in s0-s7. Outputs of a second pixel are behind those of the first.
 *
 *   r1 codes   r2, r3 x of the pixels   r4 products left   r0, r5-r11 codes of one product   lr the block
 *   s16-s31 sums   s0-s7 weights, s8-s11 their products with the first x   s12-s15 x
 */
#include "conv_codes_f32__dsp.h"
#include "cortado_asm.h"

#if defined(__ARM_FEATURE_DSP) && defined(__ARM_FP) && (__ARM_FP & 4)

/* Codes lie behind the biases and scales of the block. */
    .macro enter
    push    {r1, r4-r11, lr}
    ldm     r0, {r1-r4}
    mov     lr, r1
    adds    r1, r1, #TILE_F32_HEADS
    movs    r0, #0
    .endm

/* Sums begin with zeros. */
    .macro zeros a, b, c, d
    vmov    s\a, r0
    vmov    s\b, r0
    vmov    s\c, r0
    vmov    s\d, r0
    .endm

    .macro sum a, product, b, other
    vadd.f32 s\a, s\a, s\product
    vadd.f32 s\b, s\b, s\other
    .endm

/* Four products, and four sums of others. */
    .macro mul4_add4 x, t0, t1, t2, t3, w0, w1, w2, w3, a, b, c, d, p0, p1, p2, p3
    vmul.f32 s\t0, s\w0, s\x
    vadd.f32 s\a, s\a, s\p0
    vmul.f32 s\t1, s\w1, s\x
    vadd.f32 s\b, s\b, s\p1
    vmul.f32 s\t2, s\w2, s\x
    vadd.f32 s\c, s\c, s\p2
    vmul.f32 s\t3, s\w3, s\x
    vadd.f32 s\d, s\d, s\p3
    .endm

/* The weights of one product. */
    .macro weights
    ldrsb   r0, [r1]
    ldrsb   r5, [r1, #1]
    ldrsb   r6, [r1, #2]
    ldrsb   r7, [r1, #3]
    ldrsb   r8, [r1, #4]
    ldrsb   r9, [r1, #5]
    ldrsb   r10, [r1, #6]
    ldrsb   r11, [r1, #7]
    vmov    s0, r0
    vmov    s1, r5
    vmov    s2, r6
    vmov    s3, r7
    vmov    s4, r8
    vmov    s5, r9
    vmov    s6, r10
    vmov    s7, r11
    adds    r1, r1, #8
    .irp    n, 0, 4, 1, 5, 2, 6, 3, 7
    vcvt.f32.s32 s\n, s\n
    .endr
    .endm

/* One product of eight channels. */
    .macro product
    weights
    vldmia  r2!, {s8}
    .irp    n, 0, 4, 1, 5, 2, 6, 3, 7
    vmul.f32 s\n, s\n, s8
    .endr
    sum     16, 0, 20, 4
    sum     17, 1, 21, 5
    sum     18, 2, 22, 6
    sum     19, 3, 23, 7
    .endm

/* Times a scale, plus a bias; both lie in the block. */
    .macro scaled a, scale, b, more
    vmul.f32 s\a, s\a, s\scale
    vmul.f32 s\b, s\b, s\more
    .endm

    .macro finished a, b, c, d, e, f, g, h
    scaled  \a, 0, \e, 4
    scaled  \b, 1, \f, 5
    scaled  \c, 2, \g, 6
    scaled  \d, 3, \h, 7
    sum     \a, 8, \e, 12
    sum     \b, 9, \f, 13
    sum     \c, 10, \g, 14
    sum     \d, 11, \h, 15
    .endm

    .macro heads
    vldmia  lr!, {s8-s15}
    vldmia  lr, {s0-s7}
    .endm

    function cortado_conv_codes8_f32__dsp
    enter
    vpush   {s16-s23}
    zeros   16, 17, 18, 19
    zeros   20, 21, 22, 23
/* Two products a turn; of an odd number of them the first turn makes one. */
    adds    r4, r4, #1
    lsrs    r4, r4, #1
    bcc     .Lsecond_codes8
/* Two products. */
.Lagain_codes8:
    product
.Lsecond_codes8:
    product
    subs    r4, r4, #1
    bne     .Lagain_codes8
    heads
    finished 16, 17, 18, 19, 20, 21, 22, 23
    ldr     r1, [sp, #32]
    vstmia  r1, {s16-s23}
    vpop    {s16-s23}
    pop     {r1, r4-r11, pc}

    function cortado_conv_codes8x2_f32__dsp
    enter
    vpush   {s16-s31}
    zeros   16, 17, 18, 19
    zeros   20, 21, 22, 23
    zeros   24, 25, 26, 27
    zeros   28, 29, 30, 31
/* A product of each pixel. */
.Lagain_codes8x2:
    weights
    vldmia  r2!, {s12}
    vldmia  r3!, {s13}
    vmul.f32 s8, s0, s12
    vmul.f32 s9, s1, s12
    vmul.f32 s10, s2, s12
    vmul.f32 s11, s3, s12
    mul4_add4 13, 0, 1, 2, 3, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11
    mul4_add4 12, 8, 9, 10, 11, 4, 5, 6, 7, 24, 25, 26, 27, 0, 1, 2, 3
    mul4_add4 13, 4, 5, 6, 7, 4, 5, 6, 7, 20, 21, 22, 23, 8, 9, 10, 11
    vadd.f32 s28, s28, s4
    vadd.f32 s29, s29, s5
    vadd.f32 s30, s30, s6
    vadd.f32 s31, s31, s7
    subs    r4, r4, #1
    bne     .Lagain_codes8x2
    heads
    finished 16, 17, 18, 19, 20, 21, 22, 23
    finished 24, 25, 26, 27, 28, 29, 30, 31
    ldr     r1, [sp, #64]
    vstmia  r1, {s16-s31}
    vpop    {s16-s31}
    pop     {r1, r4-r11, pc}

#endif
