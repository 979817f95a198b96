/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear layers with 4-bit weights and DSP instructions: straight from the input, four channels' weights in every
 * halfword.
 *
 *   void cortado_linear_narrow_s8__dsp(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out,
 *                                      int32_t pixels, void *scratch)
 *
 * Tile: 1 pixel x 4 channels. Scratch: none.
 *
 * The stream is that of conv_narrow_s8__dsp.S, and so is what is done with it. Sums c and d are taken out after
 * NARROW_SPAN products at most (and up to three behind the last whole four): a layer may have 65,536 products.
 *
 * While products are added:
 *   r0 x   r1 stream   r2 end of the span   r3, r12 even and odd x as halfwords   r8 to r11 weights and their bits
 *   r4 A   r5 G   r6 C   r7 F   lr x behind fours
 * Then sums are doubled:
 *   r0, r2; r3, r8; r9, r10; r11, lr multiplier and right shift of each channel   r12 output offset
 */
#include "conv_narrow_s8__dsp.h"
#include "cortado_asm.h"
#include "cortado_offsets.h"

#if defined(__thumb__) && defined(__ARM_FEATURE_DSP)

/* Frame. */
#define TAKEN 0  /* sums d of the spans before, doubled */
#define SUM 4    /* 16 * sum x */
#define LAST 8   /* the end of the channels, less 4 */
#define CLAMP 12 /* 0 if all of int8 is allowed */
#define OUT 16
#define X 20
#define ENTRY 24 /* where the first turn over the products begins */
#define FIRST 28 /* where the first span of products ends */
#define X_END 32 /* of the whole fours */
#define FEW 36   /* products behind them */
#define OFFSET 40
#define LOW 44   /* the least and the largest output, four times */
#define HIGH 48
#define PIXELS 52 /* pixels left */
#define LAYER 56  /* L */
#define TAKEN_C 60 /* sums c of the spans before, doubled */
#define FRAME 68

/* Four products of every channel with the four x in r12; 72 bytes of code and their load. */
#define FOUR_BYTES (72 + LOAD_FOUR_BYTES)
#define TURN 8 /* products of a turn */
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

    function cortado_linear_narrow_s8__dsp
    push    {r4-r11, lr}
    sub     sp, sp, #FRAME
    str     r0, [sp, #LAYER]
    /* One turn: one pixel. */
.Lflat_pixel:
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
    /* The first span has what is no whole span, and its first turn what is no whole turn. */
    bic     r4, r3, #3
    sub     r5, r3, r4
    subs    r6, r4, #1
    ubfx    r6, r6, #0, #9
    adds    r6, r6, #1
    cmp     r4, #0
    it      eq
    moveq   r6, #0
    add     r6, r6, r1
    add     r8, r4, r1
    strd    r8, r5, [sp, #X_END]
    rsbs    r4, r4, #0
    and     r4, r4, #TURN - 1
    movs    r7, #FOUR_BYTES / 4
    adr     r9, .Lflat_products
    mla     r7, r4, r7, r9
    orr     r7, r7, #1
    strd    r7, r6, [sp, #ENTRY]
    /* The sum of all x: bytes without their signs by fours, less 128 for each, then the last few. */
    mov     r9, #0
    lsls    r4, r3, #7
    rsbs    r4, r4, #0
    cmp     r1, r8
    beq     .Lflat_summed
    /* One turn: four x. */
.Lflat_sums:
    load_four r12, r1, r3
    eor     r12, r12, #0x80808080
    usada8  r4, r12, r9, r4
    cmp     r1, r8
    bne     .Lflat_sums
.Lflat_summed:
    cbz     r5, .Lflat_begin
    /* One turn: one of the last few x. */
.Lflat_last_sums:
    ldrsb   r12, [r1], #1
    adds    r4, r4, #128
    add     r4, r4, r12
    subs    r5, r5, #1
    bne     .Lflat_last_sums
.Lflat_begin:
    lsls    r4, r4, #4
    str     r4, [sp, #SUM]
    ldr     r1, [r0, #CORTADO_CONV1X1_WEIGHTS]
    /* One turn: four channels. */
.Lflat_channels:
    ldr     r0, [sp, #X]
    ldr     r2, [sp, #FIRST]
    ldr     lr, [sp, #FEW]
    movs    r4, #0
    movs    r5, #0
    movs    r6, #0
    movs    r7, #0
    str     r4, [sp, #TAKEN]
    str     r4, [sp, #TAKEN_C]
    cmp     r0, r2
    beq     .Lflat_few
    ldr     pc, [sp, #ENTRY]
    .p2align 2
    /* One turn: eight products of each channel. */
.Lflat_products:
    .rept TURN / 4 - 1
    load_four r12, r0, r3
    products
    .endr
    load_four r12, r0, r3
    /* Here also from below, with the last 1 to 3 x. */
.Lflat_four:
    products
    cmp     r0, r2
    bne     .Lflat_products
    ldr     r3, [sp, #X_END]
    cmp     r0, r3
    bne     .Lflat_span
.Lflat_few:
    cmp     lr, #0
    beq     .Lflat_finish
    mov     r12, #0
    /* One turn: one of the last 1 to 3 x, from the last to the first. */
.Lflat_byte:
    subs    lr, lr, #1
    ldrb    r3, [r0, lr]
    orr     r12, r3, r12, lsl #8
    bne     .Lflat_byte
    b       .Lflat_four
.Lflat_finish:
    ldm     r1!, {r0, r2, r3, r8}
    ldrd    r9, r12, [sp, #TAKEN]
    ldr     r10, [sp, #TAKEN_C]
    subs    r7, r7, r5
    subs    r7, r7, r6
    subs    r5, r5, r4
    subs    r0, r0, r12
    subs    r2, r2, r12
    subs    r3, r3, r12
    add     r8, r8, r9
    add     r3, r3, r10
    add     r4, r0, r4, lsl #1
    add     r5, r2, r5, asr #3
    add     r6, r3, r6, asr #7
    add     r7, r8, r7, asr #11
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
    cbz     r0, .Lflat_store
    ldr     r0, [sp, #LOW]
    ldr     r2, [sp, #HIGH]
    limit_bytes r4
.Lflat_store:
    subs    r12, r12, r3
    blt     .Lflat_last
#if defined(CORTADO_ALIGNED_ONLY)
    store_four r4, r3
    cmp     r12, #0
#else
    str     r4, [r3], #4
#endif
    str     r3, [sp, #OUT]
    bne     .Lflat_channels
    b       .Lflat_next
.Lflat_last:
    adds    r12, r12, #4
    /* One turn: one of the last one to three channels. */
.Lflat_last_byte:
    strb    r4, [r3], #1
    lsrs    r4, r4, #8
    subs    r12, r12, #1
    bne     .Lflat_last_byte
.Lflat_next:
    ldr     r0, [sp, #LAYER]
    ldr     r1, [sp, #X]
    ldr     r4, [r0, #CORTADO_CONV1X1_IN_C]
    mov     r2, r3
    ldr     r3, [sp, #PIXELS]
    add     r1, r1, r4
    subs    r3, r3, #1
    bne     .Lflat_pixel
    add     sp, sp, #FRAME
    pop     {r4-r11, pc}
    /* The next span: sums c and d go on from 0. */
.Lflat_span:
    ldr     r3, [sp, #TAKEN]
    ldr     r12, [sp, #TAKEN_C]
    subs    r7, r7, r5
    subs    r7, r7, r6
    add     r3, r3, r7, asr #11
    add     r12, r12, r6, asr #7
    str     r3, [sp, #TAKEN]
    str     r12, [sp, #TAKEN_C]
    mov     r7, r5
    movs    r6, #0
    add     r2, r2, #NARROW_SPAN
    b       .Lflat_products
    .size   cortado_linear_narrow_s8__dsp, . - cortado_linear_narrow_s8__dsp

#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
