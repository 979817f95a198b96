/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of 16-bit codes and 8-bit weights on small cores: conv_tile_s16__scalar.h.
 *
 *   const int8_t *cortado_conv_tile4_s16__scalar(const cortado_small_tile_t *T, const int32_t *x, int32_t pixels,
 *                                                int16_t *out)
 *   void cortado_linear_three_s16__scalar(const int16_t *x, const int8_t *weights, int32_t n, int32_t sums[3])
 *   void cortado_depthwise_pixel_s16__scalar(const cortado_wide_pixel_t *P, int16_t *out)
 *
 * Tile: 4 pixels x 1 channel; 1 pixel x 3 channels; of a depthwise layer 1 pixel x 4 channels. Scratch: none of its
 * own; x of four pixels and the taps are the kernels'.
 *
 * The stream of a convolution, each channel; d = T->depth:
 *
 *   | bias 4 | weights d | multiplier 4, as two signed halves | shifts 4 |, the words of cortado_asm.h
 *
 * of a linear layer, each six channels a to f; channels that make a six whole are zeros, and so is what makes it words:
 *
 *   | a[k] d[k] |  each product, then  | b[k] e[k] |  and  | c[k] f[k] |
 *   | bias 4 | multiplier 4 | shift 4, negative |  of a to f
 *
 * of a depthwise layer, each four channels; the last four may repeat some of those before:
 *
 *   | biases 4 x 4 | weights 4 |  for each tap  | multiplier 4 | shifts 4 |  of each channel, as a convolution's
 */
#include "conv_tile_s16__scalar.h"
#include "cortado_asm.h"

#if defined(__thumb__) && CORTADO_SMALL_CORE

/* ---- four pixels --------------------------------------------------------------------------------------------------
 *
 * While products are added:
 *   r0 x   r1 stream   r2 to r5 a code of each pixel, then products   r6 four weights   r7 one weight   r8 to r11 sums
 *   lr end of x
 * While a channel is scaled and stored:
 *   r0 sum   r1 to r3 free   r4, r5 signed lower and upper half of the multiplier   r6 next sum   r7 out
 *   r8 shift word   r9 0   r10 low   r11 high   r12 2^14   lr stride
 */

/* Frame. */
#define SUMS 0
#define SUMS_END 16 /* where the sums of this tile's pixels end */
#define OUT_END 20  /* the end of the channels of the first pixel */
#define LAYER 24
#define X 28
#define X_END 32
#define OUT 36
#define STREAM 40
#define FRAME 44

/* A product of each pixel. */
    .macro products weight
    muls    r2, \weight, r2
    muls    r3, \weight, r3
    muls    r4, \weight, r4
    muls    r5, \weight, r5
    add     r8, r2
    add     r9, r3
    add     r10, r4
    add     r11, r5
    .endm

    function cortado_conv_tile4_s16__scalar
    push    {r4-r7, lr}
    mov     r4, r8
    mov     r5, r9
    mov     r6, r10
    mov     r7, r11
    push    {r4-r7}
    sub     sp, sp, #FRAME
    str     r0, [sp, #LAYER]
    str     r1, [sp, #X]
    str     r3, [sp, #OUT]
    lsls    r2, r2, #2
    add     r2, r2, sp
    str     r2, [sp, #SUMS_END]
    ldr     r2, [r0, #TILE_CHANNELS]
    lsls    r2, r2, #1
    adds    r3, r3, r2
    str     r3, [sp, #OUT_END]
    ldr     r2, [r0, #TILE_DEPTH]
    lsls    r2, r2, #4
    adds    r2, r2, r1
    str     r2, [sp, #X_END]
    ldr     r1, [r0, #TILE_STREAM]
    /* One turn: one channel. */
.Lwide_channel:
    ldr     r0, [sp, #X_END]
    mov     lr, r0
    ldmia   r1!, {r2}
    mov     r8, r2
    mov     r9, r2
    mov     r10, r2
    mov     r11, r2
    ldr     r0, [sp, #X]
    /* One turn: four products of each pixel. */
.Lwide_products:
    ldmia   r1!, {r6}
    ldmia   r0!, {r2-r5}
    sxtb    r7, r6
    products r7
    asrs    r6, r6, #8
    ldmia   r0!, {r2-r5}
    sxtb    r7, r6
    products r7
    asrs    r6, r6, #8
    ldmia   r0!, {r2-r5}
    sxtb    r7, r6
    products r7
    asrs    r6, r6, #8
    ldmia   r0!, {r2-r5}
    products r6
    cmp     r0, lr
    bne     .Lwide_products
    mov     r2, r8
    mov     r3, r9
    mov     r4, r10
    mov     r5, r11
    mov     r0, sp
    stmia   r0!, {r2-r5}
    ldmia   r1!, {r4, r5}
    mov     r8, r5
    lsrs    r5, r4, #16
    sxth    r4, r4
    str     r1, [sp, #STREAM]
    ldr     r0, [sp, #LAYER]
    ldr     r7, [sp, #OUT]
    adds    r0, r0, #TILE_STRIDE
    ldmia   r0!, {r1, r2, r3}
    mov     lr, r1
    mov     r10, r2
    mov     r11, r3
    movs    r6, #0
    mov     r9, r6
    movs    r6, #1
    lsls    r6, r6, #14
    mov     r12, r6
    mov     r6, sp
    /* One turn: one pixel's sum to its output. */
.Lwide_pixel:
    ldmia   r6!, {r0}
    output_small
    strh    r0, [r7]
    add     r7, r7, lr
    ldr     r1, [sp, #SUMS_END]
    cmp     r6, r1
    bne     .Lwide_pixel
    ldr     r1, [sp, #STREAM]
    ldr     r2, [sp, #OUT]
    adds    r2, r2, #2
    str     r2, [sp, #OUT]
    ldr     r3, [sp, #OUT_END]
    cmp     r2, r3
    beq     .Lwide_return
    b       .Lwide_channel
.Lwide_return:
    movs    r0, r1
    add     sp, sp, #FRAME
    pop     {r4-r7}
    mov     r8, r4
    mov     r9, r5
    mov     r10, r6
    mov     r11, r7
    pop     {r4-r7, pc}
    .size   cortado_conv_tile4_s16__scalar, . - cortado_conv_tile4_s16__scalar

/* ---- one pixel ----------------------------------------------------------------------------------------------------
 *
 *   r0 end of x   r1 to r3 ends of the three rows of weights   r4 runs from -2 * n to 0   r5 x   r6, r7 weights
 *   r8 to r10 sums
 */

/* One product of each channel; the flags say whether r4 has come to 0. */
    .macro three_products
    ldrsh   r5, [r0, r4]
    ldrsb   r6, [r1, r4]
    muls    r6, r5, r6
    add     r8, r6
    ldrsb   r6, [r2, r4]
    ldrsb   r7, [r3, r4]
    muls    r6, r5, r6
    add     r9, r6
    muls    r7, r5, r7
    add     r10, r7
    adds    r4, r4, #2
    .endm

    function cortado_linear_three_s16__scalar
    push    {r3-r7, lr}
    mov     r5, r8
    mov     r6, r9
    mov     r7, r10
    push    {r5-r7}
    lsls    r4, r2, #1
    adds    r0, r0, r4
    adds    r1, r1, r4
    adds    r2, r1, r4
    adds    r3, r2, r4
    rsbs    r4, r4, #0
    movs    r5, #0
    mov     r8, r5
    mov     r9, r5
    mov     r10, r5
    /* One turn: one product of each channel, until a multiple of four is left. */
.Lthree_odd:
    movs    r5, #7
    tst     r4, r5
    beq     .Lthree_fours
    three_products
    b       .Lthree_odd
.Lthree_fours:
    cmp     r4, #0
    beq     .Lthree_return
    /* One turn: four products of each channel. */
.Lthree_products:
    three_products
    three_products
    three_products
    three_products
    bne     .Lthree_products
.Lthree_return:
    pop     {r5-r7}
    pop     {r3}
    mov     r0, r8
    mov     r1, r9
    mov     r2, r10
    stmia   r3!, {r0-r2}
    mov     r8, r5
    mov     r9, r6
    mov     r10, r7
    pop     {r4-r7, pc}
    .size   cortado_linear_three_s16__scalar, . - cortado_linear_three_s16__scalar

/* ---- a depthwise layer --------------------------------------------------------------------------------------------
 *
 * While products are added:
 *   r0 taps   r1 stream   r2 a tap's channels   r3 weights   r4 code, then product   r5 weight   r8 to r11 sums
 *   r12 bytes from a tap's pixel to the channels   lr end of the taps
 * While outputs are made:
 *   r0 sum, then output   r4, r5 multiplier   r6 stream   r7 out   r8 shift word   r9 0   r10 low   r11 high   r12 2^14
 */

/* Frame. */
#define PIXEL_SUMS 0
#define PIXEL_BYTES 16 /* to the channels */
#define PIXEL 20
#define PIXEL_OUT 24
#define PIXEL_FRAME 28

    .macro channel_product at, sum
    ldrh    r4, [r2, #\at]
    sxth    r4, r4
    sxtb    r5, r3
    muls    r4, r5, r4
    add     \sum, r4
    .endm

    .macro channel_output number
    ldmia   r6!, {r4, r5}
    mov     r8, r5
    lsrs    r5, r4, #16
    sxth    r4, r4
    ldr     r0, [sp, #PIXEL_SUMS + 4 * \number]
    output_small
    strh    r0, [r7, #2 * \number]
    .endm

    function cortado_depthwise_pixel_s16__scalar
    push    {r4-r7, lr}
    mov     r4, r8
    mov     r5, r9
    mov     r6, r10
    mov     r7, r11
    push    {r4-r7}
    sub     sp, sp, #PIXEL_FRAME
    str     r0, [sp, #PIXEL]
    str     r1, [sp, #PIXEL_OUT]
    movs    r2, #0
    ldr     r1, [r0, #4]
    /* One turn: four channels. */
.Lpixel_channels:
    str     r2, [sp, #PIXEL_BYTES]
    mov     r12, r2
    ldr     r3, [sp, #PIXEL]
    ldr     r0, [r3]
    ldr     r4, [r3, #8]
    lsls    r4, r4, #2
    adds    r4, r4, r0
    mov     lr, r4
    ldmia   r1!, {r4-r7}
    mov     r8, r4
    mov     r9, r5
    mov     r10, r6
    mov     r11, r7
    /* One turn: one tap of them. */
.Lpixel_tap:
    ldmia   r0!, {r2}
    add     r2, r2, r12
    ldmia   r1!, {r3}
    channel_product 0, r8
    asrs    r3, r3, #8
    channel_product 2, r9
    asrs    r3, r3, #8
    channel_product 4, r10
    asrs    r3, r3, #8
    ldrh    r4, [r2, #6]
    sxth    r4, r4
    muls    r4, r3, r4
    add     r11, r4
    cmp     r0, lr
    bne     .Lpixel_tap
    mov     r2, r8
    mov     r3, r9
    mov     r4, r10
    mov     r5, r11
    mov     r0, sp
    stmia   r0!, {r2-r5}
    movs    r6, r1
    ldr     r3, [sp, #PIXEL]
    ldr     r7, [sp, #PIXEL_OUT]
    add     r7, r7, r12
    ldr     r2, [r3, #16]
    mov     r10, r2
    ldr     r2, [r3, #20]
    mov     r11, r2
    movs    r2, #0
    mov     r9, r2
    movs    r2, #1
    lsls    r2, r2, #14
    mov     r12, r2
    channel_output 0
    channel_output 1
    channel_output 2
    channel_output 3
    movs    r1, r6
    ldr     r3, [sp, #PIXEL]
    ldr     r4, [r3, #12]
    lsls    r4, r4, #1
    subs    r4, r4, #8
    ldr     r2, [sp, #PIXEL_BYTES]
    cmp     r2, r4
    beq     .Lpixel_return
    adds    r2, r2, #8
    cmp     r2, r4
    ble     .Lpixel_next
    movs    r2, r4 /* the last four channels overlap those before */
.Lpixel_next:
    b       .Lpixel_channels
.Lpixel_return:
    add     sp, sp, #PIXEL_FRAME
    pop     {r4-r7}
    mov     r8, r4
    mov     r9, r5
    mov     r10, r6
    mov     r11, r7
    pop     {r4-r7, pc}
    .size   cortado_depthwise_pixel_s16__scalar, . - cortado_depthwise_pixel_s16__scalar
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
