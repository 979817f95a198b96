/* SPDX-License-Identifier: Apache-2.0
 *
 * The products of a few output channels of one pixel, for cores without vector instructions:
 * linear_group_s8__scalar_dsp.h.
 *
 *   const int8_t *cortado_linear_group_s8(const int8_t *x, const int8_t *weights, int32_t n, int32_t *sums)
 *   void cortado_linear_groups_s8(const cortado_linear_groups_t *G, const int8_t *x, int8_t *out)    small cores only
 *
 * Tile: 1 pixel x 4 channels, on small cores 3. Scratch: none.
 *
 * The stream of cortado_linear_s8, for each group of channels a, b, c, d; channels that make a group whole are zeros:
 *
 *   DSP     | a 4 | b 4 | c 4 | d 4 |  each four products, padded with zeros
 *   long    | a | b | c | d |          each product
 *   small   | a n | b n | c n |        all products of one channel after the other
 *
 *   then, for each channel:  | bias 4 | multiplier 4 | right shift less 1, 4 |
 *   small, behind zeros that make the products a multiple of 4:  | bias 4 | multiplier 4 | shifts 4 |, the words of
 *   cortado_asm.h
 *
 * The first function reads the products; its kernel reads the rest. The second makes all outputs of a pixel.
 */
#include "cortado_asm.h"
#include "linear_group_s8__scalar_dsp.h"

#if defined(__thumb__)

    function CORTADO_ISA(cortado_linear_group_s8)
#if CORTADO_SMALL_CORE

/* small:
 *   r0 end of x   r1 to r3 ends of the three rows of weights   r4 runs from -n to 0   r5 x   r6, r7 weights
 *   r8 to r10 sums
 */
    /* One product of each channel; the flags say whether r4 has come to 0. */
    .macro products
    ldrsb   r5, [r0, r4]
    ldrsb   r6, [r1, r4]
    muls    r6, r5, r6
    add     r8, r6
    ldrsb   r6, [r2, r4]
    ldrsb   r7, [r3, r4]
    muls    r6, r5, r6
    add     r9, r6
    muls    r7, r5, r7
    add     r10, r7
    adds    r4, r4, #1
    .endm

    push    {r3-r7, lr}
    mov     r5, r8
    mov     r6, r9
    mov     r7, r10
    push    {r5-r7}
    ldmia   r3!, {r5-r7}
    mov     r8, r5
    mov     r9, r6
    mov     r10, r7
    rsbs    r4, r2, #0
    adds    r0, r0, r2
    adds    r1, r1, r2
    adds    r3, r1, r2
    adds    r3, r3, r2
    adds    r2, r1, r2
    movs    r5, #1
    tst     r4, r5
    beq     .Lgroup_products
    products
    beq     .Lgroup_return
    /* One turn: two products of each channel; an odd first one is behind. */
.Lgroup_products:
    products
    products
    bne     .Lgroup_products
.Lgroup_return:
    movs    r0, r3
    mov     r1, r8
    mov     r2, r9
    mov     r4, r10
    pop     {r5-r7}
    mov     r8, r5
    mov     r9, r6
    mov     r10, r7
    pop     {r3}
    stmia   r3!, {r1, r2, r4}
    pop     {r4-r7, pc}

    .size   CORTADO_ISA(cortado_linear_group_s8), . - CORTADO_ISA(cortado_linear_group_s8)

/* Frame. */
#define SUMS 0
#define SUMS_END 12 /* where they end */
#define X_END 16
#define DEPTH 20
#define OUT 24
#define OUT_END 28
#define LAYER 32
#define FRAME 36

/* While outputs are made:
 *   r0 sum, then output   r4, r5 multiplier   r6 sums   r7 stream   r8 shifts   r9 offset   r10 low   r11 high
 *   r12 2^14   lr out
 */
    function CORTADO_ISA(cortado_linear_groups_s8)
    push    {r4-r7, lr}
    mov     r4, r8
    mov     r5, r9
    mov     r6, r10
    mov     r7, r11
    push    {r4-r7}
    sub     sp, sp, #FRAME
    mov     r4, sp
    adds    r4, r4, #SUMS_END
    str     r4, [sp, #SUMS_END]
    str     r0, [sp, #LAYER]
    str     r2, [sp, #OUT]
    ldr     r3, [r0, #GROUPS_CHANNELS]
    adds    r2, r2, r3
    str     r2, [sp, #OUT_END]
    ldr     r2, [r0, #GROUPS_DEPTH]
    adds    r1, r1, r2
    str     r1, [sp, #X_END]
    str     r2, [sp, #DEPTH]
    ldr     r1, [r0, #GROUPS_STREAM]
    /* One turn: three channels. */
.Lgroups_channels:
    ldr     r0, [sp, #X_END]
    ldr     r2, [sp, #DEPTH]
    movs    r3, #0
    mov     r8, r3
    mov     r9, r3
    mov     r10, r3
    rsbs    r4, r2, #0
    adds    r1, r1, r2
    adds    r3, r1, r2
    adds    r3, r3, r2
    adds    r2, r1, r2
    movs    r5, #3
    /* One turn: one product of each channel, until a multiple of four is left. */
.Lgroups_odd:
    tst     r4, r5
    beq     .Lgroups_fours
    products
    movs    r5, #3
    b       .Lgroups_odd
.Lgroups_fours:
    cmp     r4, #0
    beq     .Lgroups_sums
    /* One turn: four products of each channel. */
.Lgroups_products:
    products
    products
    products
    products
    bne     .Lgroups_products
.Lgroups_sums:
    mov     r0, r8
    mov     r1, r9
    mov     r2, r10
    mov     r6, sp
    stmia   r6!, {r0-r2}
    mov     r6, sp
    adds    r7, r3, #3
    lsrs    r7, r7, #2
    lsls    r7, r7, #2
    ldr     r0, [sp, #LAYER]
    adds    r0, r0, #GROUPS_OFFSET
    ldmia   r0!, {r1-r3}
    mov     r9, r1
    mov     r10, r2
    mov     r11, r3
    movs    r1, #1
    lsls    r1, r1, #14
    mov     r12, r1
    ldr     r1, [sp, #OUT]
    mov     lr, r1
    /* One turn: one output. */
.Lgroups_output:
    ldmia   r7!, {r1, r4, r5}
    mov     r8, r5
    lsrs    r5, r4, #16
    sxth    r4, r4
    ldmia   r6!, {r0}
    adds    r0, r0, r1
    output_small
    mov     r1, lr
    strb    r0, [r1]
    adds    r1, r1, #1
    mov     lr, r1
    ldr     r2, [sp, #OUT_END]
    cmp     r1, r2
    beq     .Lgroups_return
    ldr     r2, [sp, #SUMS_END]
    cmp     r6, r2
    bne     .Lgroups_output
    str     r1, [sp, #OUT]
    movs    r1, r7
    b       .Lgroups_channels
.Lgroups_return:
    add     sp, sp, #FRAME
    pop     {r4-r7}
    mov     r8, r4
    mov     r9, r5
    mov     r10, r6
    mov     r11, r7
    pop     {r4-r7, pc}
    .size   CORTADO_ISA(cortado_linear_groups_s8), . - CORTADO_ISA(cortado_linear_groups_s8)

#elif defined(__ARM_FEATURE_DSP)

/* DSP:
 *   r0 x   r1 weights   r2 end of x   r3, r12 even and odd x as halfwords   r4 to r7 sums
 *   r8 to r11 weights, four of each channel
 */
    /* Four products of one channel. */
    .macro channel sum, weights
    sxtb16  lr, \weights
    smlad   \sum, lr, r3, \sum
    sxtb16  lr, \weights, ror #8
    smlad   \sum, lr, r12, \sum
    .endm

    /* Four products of each channel. */
    .macro products
    load_four r12, r0, r3
    ldm     r1!, {r8-r11}
    sxtb16  r3, r12
    sxtb16  r12, r12, ror #8
    channel r4, r8
    channel r5, r9
    channel r6, r10
    channel r7, r11
    .endm

    push    {r3-r11, lr}
    ldm     r3, {r4-r7}
    add     r2, r2, r0
    sub     r3, r2, r0
    tst     r3, #4
    bne     .Lgroup_four
    /* One turn: eight products of each channel; the first turn has four where they are no multiple of eight. */
.Lgroup_products:
    products
.Lgroup_four:
    products
    cmp     r0, r2
    bne     .Lgroup_products
    pop     {r3}
    mov     r0, r1
    stm     r3, {r4-r7}
    pop     {r4-r11, pc}

#else

/* long:
 *   r0 x   r1 weights   r2 end of x   r3 one x   r4 to r7 sums   r8, r9, r12, lr one weight of each channel
 */
    /* One product of each channel. */
    .macro products
    ldrsb   r3, [r0], #1
    ldrsb   r8, [r1], #1
    ldrsb   r9, [r1], #1
    ldrsb   r12, [r1], #1
    ldrsb   lr, [r1], #1
    mla     r4, r3, r8, r4
    mla     r5, r3, r9, r5
    mla     r6, r3, r12, r6
    mla     r7, r3, lr, r7
    .endm

    push    {r3-r9, lr}
    ldm     r3, {r4-r7}
    add     r2, r2, r0
    /* One turn: one product of each channel, until a multiple of four is left. */
.Lgroup_odd:
    sub     r3, r2, r0
    tst     r3, #3
    beq     .Lgroup_fours
    products
    b       .Lgroup_odd
    /* One turn: four products of each channel. */
.Lgroup_products:
    products
    products
    products
    products
.Lgroup_fours:
    cmp     r0, r2
    bne     .Lgroup_products
    pop     {r3}
    mov     r0, r1
    stm     r3, {r4-r7}
    pop     {r4-r9, pc}

#endif
#if !CORTADO_SMALL_CORE
    .size   CORTADO_ISA(cortado_linear_group_s8), . - CORTADO_ISA(cortado_linear_group_s8)
#endif
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
