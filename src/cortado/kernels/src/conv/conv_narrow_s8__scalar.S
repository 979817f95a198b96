/* SPDX-License-Identifier: Apache-2.0
 *
 * All output channels of up to four pixels with 4-bit weights on small cores: conv_narrow_s8__scalar.h.
 *
 *   void cortado_conv_narrow_s8__scalar(const cortado_conv_tile_t *T, const void *x, int32_t pixels, int8_t *out)
 *   void cortado_conv_runs_s8__scalar(const cortado_conv_tile_t *T, const void *x, int32_t pixels, int8_t *out)
 *
 * Tile: 4 pixels x 1 channel. Scratch: none of its own; x is the kernel's.
 *
 * Two pixels are in the 16-bit lanes of a word, as in conv_tile_s8__scalar_dsp.S. A lane holds the products of 32
 * weights in [-7, 7]; then they are collected.
 *
 * The stream, for each channel; products that make it whole are zeros:
 *
 *   | eight weights in each word, the first in its lowest bits |
 *   | bias 4 | multiplier 4, as two signed halves | shifts 4 |
 *
 *   with factors:
 *   | from bit 0 the left shift, from 5 the right one, from 10 up to five factors |
 *   | words of seven more factors | weights | bias 4 | multiplier 4 |
 *
 * Factors take four bits, less 3, with a 1 above the last of a word. The words of the multiplier and the shifts are
 * those of cortado_asm.h.
 *
 * While products are added:
 *   r0 x   r1 stream   r2 to r5 four words of x, then products   r6 eight weights   r7 one weight
 *   r8, r9 lanes of pixels 0 and 1, of 2 and 3
 *   without factors: r10, r12 sum of the words r8, of their upper lanes   r11, lr of the words r9
 *   with factors: r10, r11, r12, lr sums of pixels 0 to 3
 * While a channel is scaled and stored:
 *   r0 sum   r1 to r3 free   r4, r5 signed lower and upper half of the multiplier   r6 next sum   r7 out
 *   r8 shift word   r9 offset   r10 low   r11 high   r12 2^14   lr stride
 */
#include "conv_narrow_s8__scalar.h"
#include "cortado_asm.h"

#if defined(__thumb__) && CORTADO_SMALL_CORE

/* Frame. */
#define SUMS 0      /* of 4 pixels */
#define SUMS_END 16 /* where the sums of this tile's pixels end */
#define OUT_END 20  /* the end of the channels of the first pixel */
#define LAYER 24    /* T */
#define X 28
#define X_END 32
#define OUT 36
#define STREAM 40
#define ENTRY 44    /* where the first turn over the products begins */
#define WORD 48     /* factors of the next runs */
#define FACTORS 52  /* where more of them are */
#define RUNS 56     /* bytes of a channel's words of seven factors */
#define SHIFTS 60   /* a channel's first word */
#define FRAME 64

#define RUN 32 /* CORTADO_NARROW_RUN */

/* Two products of both pairs of pixels, with weights from bits \k and \k + 4 on. */
    .macro two k
    ldmia   r0!, {r2-r5}
    lsls    r7, r6, #28 - \k
    asrs    r7, r7, #28
    muls    r2, r7, r2
    muls    r3, r7, r3
    add     r8, r2
    add     r9, r3
    .if \k < 24
    lsls    r7, r6, #24 - \k
    asrs    r7, r7, #28
    .else
    asrs    r7, r6, #28
    .endif
    muls    r4, r7, r4
    muls    r5, r7, r5
    add     r8, r4
    add     r9, r5
    .endm

/* Eight products; 104 bytes of code. */
#define EIGHT_BYTES 104
    .macro eight
    ldmia   r1!, {r6}
    two     0
    two     8
    two     16
    two     24
    .endm

    .macro enter
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
    adds    r3, r3, r2
    str     r3, [sp, #OUT_END]
    ldr     r2, [r0, #TILE_DEPTH]
    lsls    r3, r2, #3
    adds    r3, r3, r1
    str     r3, [sp, #X_END]
    ldr     r1, [r0, #TILE_STREAM]
    .endm

/* No sums, no lanes; r0 x. */
    .macro start
    movs    r0, #0
    mov     r8, r0
    mov     r9, r0
    mov     r10, r0
    mov     r11, r0
    mov     r12, r0
    mov     lr, r0
    ldr     r0, [sp, #X]
    .endm

/* The sums, with the bias in r2, to SUMS. */
    .macro keep sum, at
    mov     r4, \sum
    adds    r4, r4, r2
    str     r4, [sp, #SUMS + \at]
    .endm

/* Lanes to sums: the upper one, rounded, to one, the word to the other. r3 2^15. */
    .macro collect lanes, words, upper
    mov     r2, \lanes
    add     \words, r2
    adds    r2, r2, r3
    asrs    r2, r2, #16
    add     \upper, r2
    .endm

/* Sums of both lanes, with the bias in r2: the lower one is words - upper * 2^16. */
    .macro separate words, upper, at
    mov     r5, \upper
    lsls    r6, r5, #16
    mov     r4, \words
    subs    r4, r4, r6
    adds    r4, r4, r2
    adds    r5, r5, r2
    str     r4, [sp, #SUMS + \at]
    str     r5, [sp, #SUMS + \at + 4]
    .endm

/* Lanes times the factor in r7, to the sums of two pixels. r3 2^15. */
    .macro weigh lanes, first, second
    mov     r2, \lanes
    adds    r4, r2, r3
    sxth    r2, r2
    asrs    r4, r4, #16
    muls    r2, r7, r2
    muls    r4, r7, r4
    add     \first, r2
    add     \second, r4
    .endm

/* Scales and stores the sums, then goes on with the next channel or returns. r1 stream   r4 multiplier
 * r5 shift word */
    .macro finish channel
    mov     r8, r5
    lsrs    r5, r4, #16
    sxth    r4, r4
    str     r1, [sp, #STREAM]
    ldr     r0, [sp, #LAYER]
    ldr     r7, [sp, #OUT]
    adds    r0, r0, #TILE_STRIDE
    ldmia   r0!, {r1, r2, r3, r6}
    mov     lr, r1
    mov     r9, r2
    mov     r10, r3
    mov     r11, r6
    movs    r6, #1
    lsls    r6, r6, #14
    mov     r12, r6
    mov     r6, sp
    /* One turn: one pixel's sum to its output. */
.Lstore_pixel_\@:
    ldmia   r6!, {r0}
    output_small
    strb    r0, [r7]
    add     r7, r7, lr
    ldr     r1, [sp, #SUMS_END]
    cmp     r6, r1
    bne     .Lstore_pixel_\@
    ldr     r1, [sp, #STREAM]
    ldr     r2, [sp, #OUT]
    adds    r2, r2, #1
    str     r2, [sp, #OUT]
    ldr     r3, [sp, #OUT_END]
    cmp     r2, r3
    beq     .Lreturn_\@
    b       \channel
.Lreturn_\@:
    add     sp, sp, #FRAME
    pop     {r4-r7}
    mov     r8, r4
    mov     r9, r5
    mov     r10, r6
    mov     r11, r7
    pop     {r4-r7, pc}
    .endm

    function cortado_conv_narrow_s8__scalar
    enter
    /* The first turn has what is no whole turn. */
    rsbs    r2, r2, #0
    movs    r3, #31
    ands    r2, r2, r3
    movs    r3, #EIGHT_BYTES / 8
    muls    r2, r3, r2
    adr     r3, .Lnarrow_products
    adds    r2, r2, r3
    adds    r2, r2, #1
    str     r2, [sp, #ENTRY]
    /* One turn: one channel. */
.Lnarrow_channel:
    start
    ldr     r2, [sp, #ENTRY]
    bx      r2
    /* One turn: 32 products. */
.Lnarrow_turn:
    movs    r2, #0
    mov     r8, r2
    mov     r9, r2
    .p2align 2
.Lnarrow_products:
    .rept 4
    eight
    .endr
    movs    r3, #1
    lsls    r3, r3, #15
    collect r8, r10, r12
    collect r9, r11, lr
    ldr     r2, [sp, #X_END]
    cmp     r0, r2
    beq     .Lnarrow_summed
    b       .Lnarrow_turn
.Lnarrow_summed:
    ldmia   r1!, {r2}
    separate r10, r12, 0
    separate r11, lr, 8
    ldmia   r1!, {r4, r5}
    finish  .Lnarrow_channel
    .size   cortado_conv_narrow_s8__scalar, . - cortado_conv_narrow_s8__scalar

    function cortado_conv_runs_s8__scalar
    enter
    movs    r3, #0
    subs    r2, r2, #5 * RUN
    ble     .Lruns_counted
    /* One turn: a word of factors, for seven runs. */
.Lruns_words:
    adds    r3, r3, #4
    subs    r2, r2, #7 * 16
    subs    r2, r2, #7 * 16
    bgt     .Lruns_words
.Lruns_counted:
    str     r3, [sp, #RUNS]
    /* One turn: one channel. */
.Lruns_channel:
    start
    ldmia   r1!, {r2}
    str     r2, [sp, #SHIFTS]
    lsrs    r2, r2, #10
    str     r2, [sp, #WORD]
    str     r1, [sp, #FACTORS]
    ldr     r3, [sp, #RUNS]
    adds    r1, r1, r3
    ldr     r2, [sp, #X_END]
    subs    r2, r2, r0
    /* One turn: one run. r2 bytes of x that are left: the last run may be short. */
.Lruns_turn:
    movs    r3, #0
    mov     r8, r3
    mov     r9, r3
    movs    r3, #RUN * 4
    lsls    r3, r3, #1
    subs    r3, r3, r2
    ble     .Lruns_products
    lsrs    r3, r3, #3
    movs    r2, #EIGHT_BYTES / 8
    muls    r3, r2, r3
    adr     r2, .Lruns_products
    adds    r3, r3, r2
    adds    r3, r3, #1
    bx      r3
    .p2align 2
.Lruns_products:
    .rept 4
    eight
    .endr
    ldr     r7, [sp, #WORD]
    cmp     r7, #1
    bne     .Lruns_factor
    ldr     r2, [sp, #FACTORS]
    ldmia   r2!, {r7}
    str     r2, [sp, #FACTORS]
.Lruns_factor:
    lsrs    r2, r7, #4
    str     r2, [sp, #WORD]
    lsls    r7, r7, #28
    lsrs    r7, r7, #28
    adds    r7, r7, #3
    movs    r3, #1
    lsls    r3, r3, #15
    weigh   r8, r10, r11
    weigh   r9, r12, lr
    ldr     r2, [sp, #X_END]
    subs    r2, r2, r0
    beq     .Lruns_summed
    b       .Lruns_turn
.Lruns_summed:
    ldmia   r1!, {r2}
    keep    r10, 0
    keep    r11, 4
    keep    r12, 8
    keep    lr, 12
    ldr     r2, [sp, #SHIFTS]
    lsls    r5, r2, #27
    lsrs    r5, r5, #27
    lsls    r2, r2, #22
    lsrs    r2, r2, #27
    beq     .Lruns_shifts
    lsls    r2, r2, #8
    orrs    r5, r5, r2
    movs    r2, #1
    lsls    r2, r2, #31
    orrs    r5, r5, r2
.Lruns_shifts:
    ldmia   r1!, {r4}
    finish  .Lruns_channel
    .size   cortado_conv_runs_s8__scalar, . - cortado_conv_runs_s8__scalar

#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
