/* SPDX-License-Identifier: Apache-2.0
 *
 * All output channels of one pixel or two with vector instructions and 4-bit weights that have a factor for each run of
 * 32 products: conv_narrow_s8__mve.h.
 *
 *   void cortado_conv_runs1_s8__mve(const cortado_conv_tile_mve_t *T, const int8_t *x, int8_t *out)
 *   void cortado_conv_runs2_s8__mve(const cortado_conv_tile_mve_t *T, const int8_t *x, int8_t *out)
 *
 * Tile: 1 or 2 pixels x 4 channels. Scratch: none.
 *
 * The stream, for each four channels; blocks are those of conv_narrow_s8__mve.S. A factor is 3 more than its four bits;
 * those of two runs are a byte, the first one's in its lower half:
 *
 *   | biases 4 x 4 |
 *   | factors of a, b, c, d in two runs 4 | blocks of the first, 2 x 32 | blocks of the second, 2 x 32 |  ...
 *   | multipliers 4 x 4 | shifts 4 x 4, negative: to the right |
 *
 * The last run may have one block, and there may be no second one.
 *
 *   r7 runs left, or products of the last   r11 3, then the output offset   q4, q5 sums   q6 factors   others as there
 */
#include "conv_narrow_s8__mve.h"
#include "cortado_asm.h"

#if defined(__ARM_FEATURE_MVE)

/* A run's sums times its factors, which are in q7 less 3. */
    .macro collect pixels
    apart   \pixels
    vadd.i32 q7, q7, r11
    vmul.i32 q0, q0, q7
    .if \pixels == 2
    vmul.i32 q1, q1, q7
    .endif
    vadd.i32 q4, q4, q0
    .if \pixels == 2
    vadd.i32 q5, q5, q1
    .endif
    .endm

    .macro first_factors
    vldrb.u32 q6, [r5], #4
    vmov.i32 q7, #15
    vand    q7, q6, q7
    .endm

    .macro whole_run pixels
    block   vmladav, \pixels
    block   vmladava, \pixels
    collect \pixels
    .endm

/* From T, r0: the stream in r5, channels in r9; fills the frame. */
    .macro load_layer
    ldrd    r5, r7, [r0, #TILE_MVE_STREAM]
    ldr     r1, [r0, #TILE_MVE_REST]
    and     r2, r7, #1
    add     r1, r1, r2, lsl #4
    lsrs    r7, r7, #1
    strd    r7, r1, [sp, #LOOPS]
    ldrd    r9, r11, [r0, #TILE_MVE_CHANNELS]
    ldrd    r1, r3, [r0, #TILE_MVE_LOW]
    sub     r2, r1, r11
    strd    r2, r11, [sp, #TIES]
    strd    r1, r3, [sp, #LOW]
    .endm

    .macro all_channels pixels
    /* One turn: four channels. */
.Lchannels_\@:
    ldrd    r1, r3, [sp, #X]
    ldr     r7, [sp, #LOOPS]
    vldrb.8 q4, [r5], #16
    mov     r11, #3
    .if \pixels == 2
    vmov    q5, q4
    .endif
    cmp     r7, #0
    beq     .Leven_\@
    /* One turn: two runs. */
.Lruns_\@:
    first_factors
    whole_run \pixels
    subs    r7, r7, #1
    beq     .Lodd_\@
    vshr.u32 q7, q6, #4
    whole_run \pixels
    subs    r7, r7, #1
    bne     .Lruns_\@
.Leven_\@:
    ldr     r7, [sp, #REST]
    cmp     r7, #0
    beq     .Lfinish_\@
    first_factors
    b       .Llast_\@
.Lodd_\@:
    ldr     r7, [sp, #REST]
    cmp     r7, #0
    beq     .Lfinish_\@
    vshr.u32 q7, q6, #4
    /* The last run, of 1 to 31 products. */
.Llast_\@:
    part    vmladav, \pixels
    subs    r7, r7, #16
    ble     .Lcollect_\@
    part    vmladava, \pixels
.Lcollect_\@:
    collect \pixels
.Lfinish_\@:
    ldr     r11, [sp, #OFFSET]
    ldrd    r1, r3, [sp, #LOW]
    vmov    q0, q4
    .if \pixels == 2
    vmov    q1, q5
    .endif
    vdup.32 q6, r1
    vdup.32 q7, r3
    outputs \pixels
    bgt     .Lchannels_\@
    leave
    .endm

    function cortado_conv_runs1_s8__mve
    enter
    str     r1, [sp, #X]
    str     r2, [sp, #OUT]
    load_layer
    all_channels 1
    .size   cortado_conv_runs1_s8__mve, . - cortado_conv_runs1_s8__mve

    function cortado_conv_runs2_s8__mve
    enter
    ldrd    r3, r4, [r0, #TILE_MVE_STREAM + 4]
    ldr     r5, [r0, #TILE_MVE_CHANNELS]
    add     r4, r4, r3, lsl #4
    add     r4, r4, r1
    add     r5, r5, r2
    strd    r1, r4, [sp, #X]
    strd    r2, r5, [sp, #OUT]
    load_layer
    all_channels 2
    .size   cortado_conv_runs2_s8__mve, . - cortado_conv_runs2_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
