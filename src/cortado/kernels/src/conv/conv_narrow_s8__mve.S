/* SPDX-License-Identifier: Apache-2.0
 *
 * All output channels of one pixel or two with vector instructions and 4-bit weights: conv_narrow_s8__mve.h.
 *
 *   void cortado_conv_narrow1_s8__mve(const cortado_conv_tile_mve_t *T, const int8_t *x, int8_t *out)
 *   void cortado_conv_narrow2_s8__mve(const cortado_conv_tile_mve_t *T, const int8_t *x, int8_t *out, int32_t pairs)
 *
 * Tile: 1 or 2 pixels x 4 channels. Scratch: none.
 *
 * The stream, for each four channels a, b, c, d; channels that make a four whole, and products that make a block, are
 * zeros:
 *
 *   | 16 * b + a 16 | 16 * d + c 16 |  each sixteen products
 *   | biases 4 x 4 | multipliers 4 x 4 | shifts 4 x 4, negative: to the right |
 *
 * VMLADAVA sums into an even core register:
 *
 *   r0 16 * sum a   r2 16 * sum b + sum a   r4, r6 the same of c and d   r8, r10, r12, lr of the second pixel
 *   r1, r3 x of the first and second pixel, later their outputs   r5 stream   r7 turns left, or the rest
 *   r9 channels left   r11 output offset   q0, q1 x   q2, q3 weights   q6, q7 low and high
 */
#include "conv_narrow_s8__mve.h"
#include "cortado_asm.h"

#if defined(__ARM_FEATURE_MVE)

#define BLOCK_BYTES 56 /* of code, of two pixels */

/* From T, r0: the stream in r5, blocks in r7, channels in r9, offset in r11, low and high in q6 and q7. */
    .macro load_layer
    ldrd    r5, r7, [r0, #TILE_MVE_STREAM]
    ldr     r1, [r0, #TILE_MVE_REST]
    str     r1, [sp, #REST]
    ldrd    r9, r11, [r0, #TILE_MVE_CHANNELS]
    ldrd    r1, r3, [r0, #TILE_MVE_LOW]
    sub     r2, r1, r11
    str     r2, [sp, #TIES]
    vdup.32 q6, r1
    vdup.32 q7, r3
    .endm

/* From the last block on. */
    .macro finish pixels
    ldr     r7, [sp, #REST]
    cbz     r7, .Lsums_\@
    part    vmladava, \pixels
.Lsums_\@:
    apart   \pixels
    vldrb.8 q2, [r5], #16
    vadd.i32 q0, q0, q2
    .if \pixels == 2
    vadd.i32 q1, q1, q2
    .endif
    outputs \pixels
    .endm

    function cortado_conv_narrow1_s8__mve
    enter
    str     r1, [sp, #X]
    str     r2, [sp, #OUT]
    load_layer
    subs    r7, r7, #1
    str     r7, [sp, #LOOPS]
    /* One turn: four channels. */
.Lone_channels:
    ldr     r1, [sp, #X]
    ldr     r7, [sp, #LOOPS]
    asrs    r7, r7, #1
    bmi     .Lone_part
    block   vmladav, 1
    bcc     .Lone_even
    block   vmladava, 1
.Lone_even:
    cbz     r7, .Lone_finish
    dls     lr, r7
    /* One turn: two blocks of sixteen products of each channel. */
.Lone_blocks:
    block   vmladava, 1
    block   vmladava, 1
    le      lr, .Lone_blocks
    /* Here also from below, where there is no block. */
.Lone_finish:
    finish  1
    bgt     .Lone_channels
    leave
    /* No block at all. */
.Lone_part:
    mov     r0, #0
    mov     r2, #0
    mov     r4, #0
    mov     r6, #0
    b       .Lone_finish
    .size   cortado_conv_narrow1_s8__mve, . - cortado_conv_narrow1_s8__mve

    function cortado_conv_narrow2_s8__mve
    enter
    strd    r3, r0, [sp, #PAIRS]
    mov     r4, r1
    mov     r6, r2
    load_layer
    ldr     r1, [sp, #REST]
    add     r1, r1, r7, lsl #4
    add     r8, r4, r1
    add     r10, r6, r9
    strd    r1, r6, [sp, #SIZE]
    strd    r4, r8, [sp, #X]
    strd    r6, r10, [sp, #OUT]
    /* Of the blocks behind the first, an odd one is the second of a turn. */
    adr     r0, .Ltwo_blocks
    tst     r7, #1
    it      eq
    addeq   r0, r0, #BLOCK_BYTES
    lsrs    r7, r7, #1
    itt     eq
    addeq   r0, r0, #2 * BLOCK_BYTES
    addeq   r0, r0, #4
    orr     r0, r0, #1
    strd    r7, r0, [sp, #TURNS]
    /* One turn: four channels of two pixels. */
.Ltwo_channels:
    ldrd    r1, r3, [sp, #X]
    ldr     r7, [sp, #TURNS]
    block   vmladav, 2
    ldr     pc, [sp, #ENTRY]
    .p2align 2
    /* One turn: two blocks of sixteen products of each channel. */
.Ltwo_blocks:
    block   vmladava, 2
    block   vmladava, 2
    subs    r7, r7, #1
    bne.n   .Ltwo_blocks
    finish  2
    bgt     .Ltwo_channels
    /* The next two pixels. */
    ldrd    r7, r0, [sp, #PAIRS]
    subs    r7, r7, #1
    beq     .Ltwo_return
    str     r7, [sp, #PAIRS]
    ldr     r5, [r0, #TILE_MVE_STREAM]
    ldr     r9, [r0, #TILE_MVE_CHANNELS]
    ldrd    r0, r2, [sp, #SIZE]
    ldrd    r1, r3, [sp, #X]
    add     r2, r2, r9, lsl #1
    add     r1, r1, r0, lsl #1
    add     r3, r3, r0, lsl #1
    add     r4, r2, r9
    str     r2, [sp, #BASE]
    strd    r1, r3, [sp, #X]
    strd    r2, r4, [sp, #OUT]
    b       .Ltwo_channels
.Ltwo_return:
    leave
    .size   cortado_conv_narrow2_s8__mve, . - cortado_conv_narrow2_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
