/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of float32 products for 16 channels of a pixel, for 8 of one and for 8 of two, with a float unit:
 * conv_sums_f32__dsp.h.
 *
 *   void cortado_conv_sums16_f32__dsp(const cortado_tile_f32_t *T, float *sums)
 *   void cortado_conv_sums8_f32__dsp(const cortado_tile_f32_t *T, float *sums)
 *   void cortado_conv_sums8x2_f32__dsp(const cortado_tile_f32_t *T, float *sums)
 *
 * Tile: 1 pixel x 16 or 8 channels, 2 pixels x 8 channels. Scratch: none.
 *
 * A product and a sum are two instructions: a fused one would round once. Between the two are three others or more, so
 * that neither waits. The sums of a second pixel are behind those of the first.
 *
 *   r1 weights   r2, r3 x of the pixels   r4 products left   r5 bytes from one product's weights to the next   r6 sums
 *   s16-s31 sums   s0-s7 weights, then their products
 */
#include "conv_sums_f32__dsp.h"
#include "cortado_asm.h"

#if defined(__ARM_FEATURE_DSP) && defined(__ARM_FP) && (__ARM_FP & 4)

/* Sums begin with the biases, which lie where weights of a product before the first would. */
    .macro enter last
    push    {r4-r6, lr}
    vpush   {s16-s31}
    mov     r6, r1
    ldm     r0, {r1-r5}
    vldmia  r1, {s16-s\last}
    add     r1, r1, r5
    .endm

/* The second pixel begins with the same. */
    .macro two_pixels
    vmov.f32 s24, s16
    vmov.f32 s25, s17
    vmov.f32 s26, s18
    vmov.f32 s27, s19
    vmov.f32 s28, s20
    vmov.f32 s29, s21
    vmov.f32 s30, s22
    vmov.f32 s31, s23
    .endm

    .macro leave last
    vstmia  r6, {s16-s\last}
    vpop    {s16-s31}
    pop     {r4-r6, pc}
    .endm

/* Four weights times x, to the same registers or others; four sums. */
    .macro mul4 x, t0, t1, t2, t3, w0, w1, w2, w3
    vmul.f32 s\t0, s\w0, s\x
    vmul.f32 s\t1, s\w1, s\x
    vmul.f32 s\t2, s\w2, s\x
    vmul.f32 s\t3, s\w3, s\x
    .endm

    .macro add4 a, b, c, d, t0, t1, t2, t3
    vadd.f32 s\a, s\a, s\t0
    vadd.f32 s\b, s\b, s\t1
    vadd.f32 s\c, s\c, s\t2
    vadd.f32 s\d, s\d, s\t3
    .endm

#if (__ARM_FP & 8) || __ARM_ARCH >= 8

/* M7, M33 and later load two words beside the arithmetic or for no more than one each: the next weights while these are
 * used. Nothing is loaded behind the last ones. */

/* Four products, between them the sums of the four before them in s\p0..., whose registers then get the next
 * weights. */
    .macro four w0, w1, w2, w3, p0, p1, p2, p3, a, b, c, d, next, then, offset, more=1
    vmul.f32 s\w0, s\w0, s8
    vadd.f32 s\a, s\a, s\p0
    vmul.f32 s\w1, s\w1, s8
    vadd.f32 s\b, s\b, s\p1
    .if \more
    vldr    d\next, [r1, #\offset]
    .endif
    vmul.f32 s\w2, s\w2, s8
    vadd.f32 s\c, s\c, s\p2
    vmul.f32 s\w3, s\w3, s8
    vadd.f32 s\d, s\d, s\p3
    .if \more
    vldr    d\then, [r1, #\offset + 8]
    .endif
    .endm

    .macro next_x more, bytes
    .if \more
    vldr    s9, [r2, #4]
    adds    r2, r2, #4
    adds    r1, r1, #\bytes
    subs    r4, r4, #1
    .endif
    .endm

    .macro sixteen more
    four    0, 1, 2, 3, 4, 5, 6, 7, 28, 29, 30, 31, 2, 3, 16
    four    4, 5, 6, 7, 0, 1, 2, 3, 16, 17, 18, 19, 0, 1, 32
    four    0, 1, 2, 3, 4, 5, 6, 7, 20, 21, 22, 23, 2, 3, 48
    next_x  \more, 64
    four    4, 5, 6, 7, 0, 1, 2, 3, 24, 25, 26, 27, 0, 1, 0, \more
    .endm

    .macro eight more
    four    0, 1, 2, 3, 4, 5, 6, 7, 20, 21, 22, 23, 2, 3, 16
    next_x  \more, 32
    four    4, 5, 6, 7, 0, 1, 2, 3, 16, 17, 18, 19, 0, 1, 0, \more
    .endm

/* One pixel: the first sums are of zeros, which change none, as no bias is -0; the last four products are left. */
    .macro one_pixel body
    vldr    s8, [r2]
    vldr    d0, [r1]
    vldr    d1, [r1, #8]
    movs    r0, #0
    vmov    s4, r0
    vmov    s5, r0
    vmov    s6, r0
    vmov    s7, r0
    subs    r4, r4, #1
    beq     .Llast_\@
/* A product that another follows. */
.Lagain_\@:
    \body   1
    vmov.f32 s8, s9
    bne     .Lagain_\@
.Llast_\@:
    \body   0
    .endm

/* The same for two pixels: four weights, x in s12 and s13. */
    .macro two_fours w0, w1, w2, w3, a, b, c, d, next, then, offset, more=1
    vmul.f32 s8, s\w0, s12
    .if \more
    vldr    d\next, [r1, #\offset]
    .endif
    vmul.f32 s9, s\w1, s12
    vmul.f32 s10, s\w2, s12
    .if \more
    vldr    d\then, [r1, #\offset + 8]
    .endif
    vmul.f32 s11, s\w3, s12
    vadd.f32 s\a, s\a, s8
    vmul.f32 s\w0, s\w0, s13
    vadd.f32 s\b, s\b, s9
    vmul.f32 s\w1, s\w1, s13
    vadd.f32 s\c, s\c, s10
    vmul.f32 s\w2, s\w2, s13
    vadd.f32 s\d, s\d, s11
    vmul.f32 s\w3, s\w3, s13
    .endm

    .macro sixteen_of_two more
    two_fours 0, 1, 2, 3, 16, 17, 18, 19, 2, 3, 16
    vadd.f32 s24, s24, s0
    .if \more
    add     r1, r1, r5
    .endif
    vadd.f32 s25, s25, s1
    .if \more
    subs    r4, r4, #1
    .endif
    vadd.f32 s26, s26, s2
    vadd.f32 s27, s27, s3
    two_fours 4, 5, 6, 7, 20, 21, 22, 23, 0, 1, 0, \more
    vadd.f32 s28, s28, s4
    .if \more
    vldr    s12, [r2, #4]
    .endif
    vadd.f32 s29, s29, s5
    .if \more
    vldr    s13, [r3, #4]
    .endif
    vadd.f32 s30, s30, s6
    .if \more
    add     r2, r2, #4
    .endif
    vadd.f32 s31, s31, s7
    .if \more
    add     r3, r3, #4
    .endif
    .endm

    function cortado_conv_sums16_f32__dsp
    enter   31
    one_pixel sixteen
    add4    28, 29, 30, 31, 4, 5, 6, 7
    leave   31

    function cortado_conv_sums8_f32__dsp
    enter   23
    one_pixel eight
    add4    20, 21, 22, 23, 4, 5, 6, 7
    leave   23

    function cortado_conv_sums8x2_f32__dsp
    enter   23
    two_pixels
    vldr    s12, [r2]
    vldr    s13, [r3]
    vldr    d0, [r1]
    vldr    d1, [r1, #8]
    subs    r4, r4, #1
    beq     .Llast_sums8x2
/* A product that another follows. */
.Lagain_sums8x2:
    sixteen_of_two 1
    bne     .Lagain_sums8x2
.Llast_sums8x2:
    sixteen_of_two 0
    leave   31

#else

/* A list of words costs a cycle more than its words: eight weights at once. */
    .macro eight x
    vldmia  r1!, {s0-s7}
    mul4    \x, 0, 1, 2, 3, 0, 1, 2, 3
    mul4    \x, 4, 5, 6, 7, 4, 5, 6, 7
    add4    16, 17, 18, 19, 0, 1, 2, 3
    add4    20, 21, 22, 23, 4, 5, 6, 7
    .endm

    .macro sixteen x
    eight   \x
    vldmia  r1!, {s0-s7}
    mul4    \x, 0, 1, 2, 3, 0, 1, 2, 3
    mul4    \x, 4, 5, 6, 7, 4, 5, 6, 7
    add4    24, 25, 26, 27, 0, 1, 2, 3
    add4    28, 29, 30, 31, 4, 5, 6, 7
    .endm

/* Two pixels: the weights serve twice. */
    .macro sixteen_of_two x0, x1
    vldmia  r1, {s0-s7}
    add     r1, r1, r5
    mul4    \x0, 8, 9, 10, 11, 0, 1, 2, 3
    add4    16, 17, 18, 19, 8, 9, 10, 11
    mul4    \x0, 8, 9, 10, 11, 4, 5, 6, 7
    add4    20, 21, 22, 23, 8, 9, 10, 11
    mul4    \x1, 0, 1, 2, 3, 0, 1, 2, 3
    mul4    \x1, 4, 5, 6, 7, 4, 5, 6, 7
    add4    24, 25, 26, 27, 0, 1, 2, 3
    add4    28, 29, 30, 31, 4, 5, 6, 7
    .endm

/* \body for all products of a pixel, two by two; of an odd number, the first one as the second of a pair. */
    .macro all_products body
    lsrs    r4, r4, #1
    bcc     .Leven_\@
    vldmia  r2!, {s9}
    b       .Lodd_\@
.Leven_\@:
    subs    r4, r4, #1
/* Two products. */
.Lagain_\@:
    vldmia  r2!, {s8-s9}
    \body   8
.Lodd_\@:
    \body   9
    subs    r4, r4, #1
    bge     .Lagain_\@
    .endm

    function cortado_conv_sums16_f32__dsp
    enter   31
    all_products sixteen
    leave   31

    function cortado_conv_sums8_f32__dsp
    enter   23
    all_products eight
    leave   23

    function cortado_conv_sums8x2_f32__dsp
    enter   23
    two_pixels
    lsrs    r4, r4, #1
    bcc     .Leven_sums8x2
    vldmia  r2!, {s13}
    vldmia  r3!, {s15}
    b       .Lodd_sums8x2
.Leven_sums8x2:
    subs    r4, r4, #1
/* Two products. */
.Lagain_sums8x2:
    vldmia  r2!, {s12-s13}
    vldmia  r3!, {s14-s15}
    sixteen_of_two 12, 14
.Lodd_sums8x2:
    sixteen_of_two 13, 15
    subs    r4, r4, #1
    bge     .Lagain_sums8x2
    leave   31

#endif

#endif
