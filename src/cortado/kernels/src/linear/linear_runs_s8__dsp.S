/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear layers with DSP instructions and 4-bit weights that have a factor for each run of 32 products: straight from
 * the input, four channels' weights in every halfword.
 *
 *   void cortado_linear_runs_s8__dsp(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
 *                                    void *scratch)
 *
 * Tile: 1 pixel x 4 channels. Scratch: 4 bytes for each run.
 *
 * The stream is that of conv_runs_s8__dsp.S, and so is what is done with it.
 *
 * While products are added:
 *   r0 x   r1 stream   r2 end of the run's fours   r3, r12 even and odd x as halfwords   r8 to r11 weights, their bits
 *   r4 A   r5 G   r6 C   r7 F   lr x of the run behind fours
 * Then sums are doubled:
 *   r0, r2; r3, r8; r9, r10; r11, lr multiplier and right shift of each channel   r12 output offset
 */
#include "conv_narrow_s8__dsp.h"
#include "cortado_asm.h"
#include "cortado_offsets.h"

#if defined(__thumb__) && defined(__ARM_FEATURE_DSP)

/* Frame. */
#define TOTALS 0  /* of a, b, c, d */
#define LAST 16   /* the end of the channels, less 4 */
#define CLAMP 20  /* 0 if all of int8 is allowed */
#define OUT 24
#define X 28
#define X_END 32
#define SKIP 36   /* bytes of the stream behind the products of the last four */
#define OFFSET 40
#define LOW 44    /* the least and the largest output, four times */
#define HIGH 48
#define SUMS 52   /* where 8 * sum x of the next run is */
#define FACTORS 56
#define BYTES 60  /* of a four's factors */
#define PIXELS 64 /* pixels left */
#define LAYER 68  /* L */
#define FRAME 76
#define SCRATCH (FRAME + 36) /* as it was passed */

/* Four products of every channel with the four x in r12. */
    .macro products
    ldr.w   r9, [r1, #4]
    ldr.w   r8, [r1], #8
    sxtb16  r3, r12
    sxtb16  r12, r12, ror #8
    smlad   r7, r8, r3, r7
    uxtb16  r10, r8
    and     r11, r8, #0x000F000F
    and     r8, r8, #0x0F000F00
    smlad   r5, r10, r3, r5
    smlad   r4, r11, r3, r4
    smlad   r6, r8, r3, r6
    uxtb16  r10, r9
    and     r11, r9, #0x000F000F
    smlad   r7, r9, r12, r7
    and     r9, r9, #0x0F000F00
    smlad   r5, r10, r12, r5
    smlad   r4, r11, r12, r4
    smlad   r6, r9, r12, r6
    .endm

/* The sum of a run, times the factor from bit \bit of r3 on, to its total. */
    .macro weigh sum, total, bit
    ubfx    r12, r3, #\bit, #4
    add     r12, r12, #3
    mla     \total, \sum, r12, \total
    .endm

    function cortado_linear_runs_s8__dsp
    push    {r4-r11, lr}
    sub     sp, sp, #FRAME
    str     r0, [sp, #LAYER]
    /* One turn: one pixel. */
.Lruns_pixel:
    str     r3, [sp, #PIXELS]
    strd    r2, r1, [sp, #OUT]
    ldrsb   r5, [r0, #CORTADO_CONV1X1_OUT_OFFSET]
    ldrsb   r6, [r0, #CORTADO_CONV1X1_OUT_OFFSET + 1]
    ldrsb   r7, [r0, #CORTADO_CONV1X1_OUT_OFFSET + 2]
    str     r5, [sp, #OFFSET]
    subs    r5, r7, r6
    subs    r5, r5, #255
    ldrd    r3, r4, [r0, #CORTADO_CONV1X1_IN_C]
    add     r4, r4, r2
    subs    r4, r4, #4
    strd    r4, r5, [sp, #LAST]
    uxtb    r6, r6
    uxtb    r7, r7
    mov     r4, #0x01010101
    muls    r6, r4, r6
    muls    r7, r4, r7
    strd    r6, r7, [sp, #LOW]
    adds    r4, r3, #63
    lsrs    r4, r4, #6
    lsls    r4, r4, #2
    str     r4, [sp, #BYTES]
    adds    r4, r3, #3
    and     r4, r4, #4
    lsls    r4, r4, #1
    add     r5, r1, r3
    strd    r5, r4, [sp, #X_END]
    ldr     r6, [sp, #SCRATCH]
    /* One turn: the sum of a run's x. */
.Lruns_sums:
    subs    r7, r5, r1
    cmp     r7, #32
    it      hi
    movhi   r7, #32
    movs    r4, #0
    /* One turn: one x. */
.Lruns_sum:
    ldrsb   r3, [r1], #1
    add     r4, r4, r3, lsl #3
    subs    r7, r7, #1
    bne     .Lruns_sum
    str     r4, [r6], #4
    cmp     r1, r5
    bne     .Lruns_sums
    ldr     r1, [r0, #CORTADO_CONV1X1_WEIGHTS]
    /* One turn: four channels; every total starts at its bias. */
.Lruns_channels:
    ldm     r1!, {r4-r7}
    strd    r4, r5, [sp, #TOTALS]
    strd    r6, r7, [sp, #TOTALS + 8]
    ldr     r2, [sp, #BYTES]
    ldr     r3, [sp, #SCRATCH]
    ldr     r0, [sp, #X]
    strd    r3, r1, [sp, #SUMS]
    add     r1, r1, r2
    /* One turn: one run. */
.Lruns_run:
    ldr     r3, [sp, #X_END]
    subs    r3, r3, r0
    cmp     r3, #32
    it      hi
    movhi   r3, #32
    and     lr, r3, #3
    bic     r2, r3, #3
    add     r2, r2, r0
    movs    r4, #0
    movs    r5, #0
    movs    r6, #0
    movs    r7, #0
    cmp     r0, r2
    beq     .Lruns_few
    /* One turn: four products of each channel. */
.Lruns_products:
    load_four r12, r0, r3
    products
    cmp     r0, r2
    bne     .Lruns_products
.Lruns_few:
    cmp     lr, #0
    beq     .Lruns_weigh
    add     r0, r0, lr
    mov     r12, #0
    add     r2, r2, lr
    /* One turn: one of the last 1 to 3 x, from the last to the first. */
.Lruns_few_byte:
    ldrb    r3, [r2, #-1]!
    orr     r12, r3, r12, lsl #8
    subs    lr, lr, #1
    bne     .Lruns_few_byte
    products
.Lruns_weigh:
    ldrd    r8, r9, [sp, #SUMS]
    ldr     r12, [r8], #4
    ldrh    r3, [r9], #2
    strd    r8, r9, [sp, #SUMS]
    subs    r7, r7, r5
    subs    r7, r7, r6
    subs    r5, r5, r4
    asrs    r7, r7, #12
    sub     r4, r4, r12
    rsb     r5, r12, r5, asr #4
    rsb     r6, r12, r6, asr #8
    ldm     sp, {r8-r11}
    weigh   r4, r8, 0
    weigh   r5, r9, 4
    weigh   r6, r10, 8
    weigh   r7, r11, 12
    stm     sp, {r8-r11}
    ldr     r3, [sp, #X_END]
    cmp     r0, r3
    bne     .Lruns_run
    ldr     r3, [sp, #SKIP]
    add     r1, r1, r3
    lsl     r4, r8, #1
    lsl     r5, r9, #1
    lsl     r6, r10, #1
    lsl     r7, r11, #1
    ldr     r12, [sp, #OFFSET]
    ldm     r1!, {r0, r2, r3, r8-r11, lr}
    scale_right r4, r0, r2
    scale_right r5, r3, r8
    scale_right r6, r9, r10
    scale_right r7, r11, lr
    join_bytes r4, r5, r6, r7
    ldr     r0, [sp, #CLAMP]
    ldr     r3, [sp, #OUT]
    ldr     r12, [sp, #LAST]
    cbz     r0, .Lruns_store
    ldr     r0, [sp, #LOW]
    ldr     r2, [sp, #HIGH]
    limit_bytes r4
.Lruns_store:
    subs    r12, r12, r3
    blt     .Lruns_last
#if defined(CORTADO_ALIGNED_ONLY)
    store_four r4, r3
    cmp     r12, #0
#else
    str     r4, [r3], #4
#endif
    str     r3, [sp, #OUT]
    bne     .Lruns_channels
    b       .Lruns_next
.Lruns_last:
    adds    r12, r12, #4
    /* One turn: one of the last one to three channels. */
.Lruns_last_byte:
    strb    r4, [r3], #1
    lsrs    r4, r4, #8
    subs    r12, r12, #1
    bne     .Lruns_last_byte
.Lruns_next:
    ldr     r0, [sp, #LAYER]
    ldr     r1, [sp, #X]
    ldr     r4, [r0, #CORTADO_CONV1X1_IN_C]
    mov     r2, r3
    ldr     r3, [sp, #PIXELS]
    add     r1, r1, r4
    subs    r3, r3, #1
    bne     .Lruns_pixel
    add     sp, sp, #FRAME
    pop     {r4-r11, pc}
    .size   cortado_linear_runs_s8__dsp, . - cortado_linear_runs_s8__dsp

#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
