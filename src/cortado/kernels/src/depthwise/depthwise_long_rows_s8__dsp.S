/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a depthwise convolution by long multiplies: depthwise_long_rows_s8__dsp.h.
 *
 *   void cortado_depthwise_pairs_s8__dsp(const cortado_depthwise_long_t *P, int32_t channel)
 *   const int8_t *cortado_depthwise_long_row_s8__dsp(const cortado_depthwise_long_t *P, const int8_t *stream,
 *                                                    int8_t *out)
 *
 * Tile: 4 pixels x 1 channel. Scratch: none of their own; the words are the kernel's.
 *
 * The stream, for each output of each channel, words; (w)[i] are the weights of word i, of which a row has n:
 *
 *   | 2 * bias - 2^21 | multiplier | right shift, at least 1 |
 *   | (w)[n-1] | (w)[0] | (w)[1] .. (w)[n-2] |  each row
 *
 * The first lays out:
 *   r0 column   r1 to   r2 channels   r3 3 * channels, then zeros   r4-r7 four channels of a column each   r8, r9 free
 *   r10 words left, edges   r11 row   r12 next row   lr words of the row
 * The second, while products are added:
 *   r0 x   r1 stream   r4, r5 and r6, r7 sums   r2, r3 weights   r8-r11 words of x   r12 bytes of a row   lr rows left
 * Then:
 *   r2, r4, r5, r6 outputs   r3 bias   r7 multiplier   r12 shift   r8 out   r9 state   r10 step   r11 offset
 */
#include "cortado_asm.h"
#include "depthwise_long_rows_s8__dsp.h"

#if defined(__thumb__) && defined(__ARM_FEATURE_DSP)

/* Four bytes from \base + \offset; \to may be \offset. Where accesses are aligned, r8 and r9 are lost. */
    .macro four_at to, base, offset:vararg
#if defined(CORTADO_ALIGNED_ONLY)
    add     r8, \base, \offset
    ldrb    \to, [r8]
    ldrb    r9, [r8, #1]
    orr     \to, \to, r9, lsl #8
    ldrb    r9, [r8, #2]
    orr     \to, \to, r9, lsl #16
    ldrb    r9, [r8, #3]
    orr     \to, \to, r9, lsl #24
#else
    ldr     \to, [\base, \offset]
#endif
    .endm

/* Two columns of four channels as four words. */
    .macro joined low, high, at
    sxtb    r8, \low
    sxtb    r9, \high
    add     r8, r8, r9, lsl #LONG_LANE
    str     r8, [r1, #\at]
    .irp    n, 1, 2, 3
    sxtb    r8, \low, ror #8 * \n
    sxtb    r9, \high, ror #8 * \n
    add     r8, r8, r9, lsl #LONG_LANE
    str     r8, [r1, #\at + 4 * \n]
    .endr
    .endm

/* The next four columns. */
    .macro columns
    four_at r4, r0, #0
    four_at r5, r0, r2
    four_at r6, r0, r2, lsl #1
    four_at r7, r0, r3
    add     r0, r0, r2, lsl #2
    .endm

    function cortado_depthwise_pairs_s8__dsp
    push    {r0, r1, r4-r11, lr}
    ldr     lr, [r0, #LONG_DATA]
    ldr     r12, [r0, #LONG_ROWS]
    ldr     r2, [r0, #LONG_CHANNELS]
    ldr     r3, [r0, #LONG_KERNEL_H]
    add     r3, r12, r3, lsl #2
    push    {r3}
    /* One turn: one row. On the stack: where the rows end, P, the channel. */
.Lpairs_row:
    ldr     r11, [r12], #4
    ldrd    r0, r1, [sp, #4]
    cmp     r11, #0
    beq     .Lpairs_next
    adds    r11, r11, r1
    ldr     r10, [r0, #LONG_INSIDE]
    ldr     r1, [r0, #LONG_TO]
    ldr     r4, [r0, #LONG_FIRST]
    ldr     r5, [r0, #LONG_STRIDE]
    add     r3, r2, r2, lsl #1
    adds    r1, r1, lr
    add     r0, r11, r4
    cmp     r5, #1
    bne     .Lpairs_apart
    subs    r10, r10, #2
    blt     .Lpairs_last
    /* One turn: four columns side by side. */
.Lpairs_beside:
    columns
    joined  r4, r5, 0
    joined  r6, r7, 16
    adds    r1, r1, #32
    subs    r10, r10, #2
    bge     .Lpairs_beside
.Lpairs_last:
    adds    r10, r10, #1
    bne     .Lpairs_edges
    four_at r4, r0, #0
    four_at r5, r0, r2
    joined  r4, r5, 0
    b       .Lpairs_edges
.Lpairs_apart:
    subs    r10, r10, #2
    blt     .Lpairs_edges
    /* One turn: four columns, every second one together. */
.Lpairs_second:
    columns
    joined  r4, r6, 0
    joined  r5, r7, 16
    adds    r1, r1, #32
    subs    r10, r10, #2
    bge     .Lpairs_second
.Lpairs_edges:
    ldr     r3, [sp, #4]
    ldr     r0, [r3, #LONG_EDGES]
    ldr     r10, [r3, #LONG_EDGES_END]
    ldr     r3, [r3, #LONG_ZEROS]
    cmp     r0, r10
    beq     .Lpairs_next
    /* One turn: one word. */
.Lpairs_edge:
    ldm     r0!, {r4-r7}
    add     r1, lr, r6
    tst     r7, #1
    bne     .Lpairs_low
    mov     r4, r3
    b       .Lpairs_high
.Lpairs_low:
    four_at r4, r11, r4
.Lpairs_high:
    tst     r7, #2
    bne     .Lpairs_both
    mov     r5, r3
    b       .Lpairs_joined
.Lpairs_both:
    four_at r5, r11, r5
.Lpairs_joined:
    joined  r4, r5, 0
    cmp     r0, r10
    bne     .Lpairs_edge
.Lpairs_next:
    ldrd    r3, r0, [sp]
    ldr     r1, [r0, #LONG_ROW_BYTES]
    add     lr, lr, r1
    cmp     r12, r3
    bne     .Lpairs_row
    add     sp, sp, #12
    pop     {r4-r11, pc}
    .size   cortado_depthwise_pairs_s8__dsp, . - cortado_depthwise_pairs_s8__dsp

/* Frame. The first five are read at once. */
#define CARRY 0
#define OUT 4
#define STATE 8
#define STEP 12
#define OFFSET 16
#define STREAM 20
#define ROW_BYTES 24
#define KERNEL_H 28
#define LOOP 32
#define BACK 36
#define PLAN 40
#define X 44    /* the channel's first word */
#define EACH 48 /* outputs of the channel that are left, and its number */
#define CHANNEL 52
#define START 56 /* where the row of outputs begins */
#define FRAME 60

/* Both sums from word \x and the one a stride further. */
    .macro both x0, x1, w
    smlal   r4, r5, \x0, \w
    smlal   r6, r7, \x1, \w
    .endm

    .macro load_w to, i, n
    .if \i == \n - 1
    ldr     \to, [r1], #4 * \n
    .else
    ldr     \to, [r1, #4 * \i + 4]
    .endif
    .endm

    .macro load_x to, i
    ldr     \to, [r0, #16 * \i]
    .endm

/* One row of \n words of weights, two of them at a time. Stride 1: words 2 i, 2 i + 1 and 2 i + 2 of x, of which the
 * last is the first of the next two; stride 2: words 2 i to 2 i + 3, of which the last two are. They take turns in r8
 * to r11. */
    .macro row_1 n
    load_w  r2, 0, \n
    .if \n > 1
    load_w  r3, 1, \n
    .endif
    load_x  r8, 0
    load_x  r9, 1
    load_x  r10, 2
    both    r8, r9, r2
    both    r9, r10, r3
    .if \n > 2
    load_w  r2, 2, \n
    .if \n > 3
    load_w  r3, 3, \n
    load_x  r8, 3
    load_x  r9, 4
    both    r10, r8, r2
    both    r8, r9, r3
    .if \n > 4
    load_w  r2, 4, \n
    load_x  r10, 5
    both    r9, r10, r2
    .endif
    .else
    load_x  r8, 3
    both    r10, r8, r2
    .endif
    .endif
    .endm

    .macro row_2 n
    load_w  r2, 0, \n
    load_w  r3, 1, \n
    load_x  r8, 0
    load_x  r9, 1
    load_x  r10, 2
    load_x  r11, 3
    both    r8, r10, r2
    both    r9, r11, r3
    .if \n > 2
    load_w  r2, 2, \n
    load_x  r8, 4
    .if \n > 3
    load_w  r3, 3, \n
    load_x  r9, 5
    both    r10, r8, r2
    both    r11, r9, r3
    .if \n > 4
    load_w  r2, 4, \n
    load_x  r10, 6
    both    r8, r10, r2
    .endif
    .else
    both    r10, r8, r2
    .endif
    .endif
    .endm

    .macro rows stride, n
    /* One turn: one row. */
.Llong_\stride\()_\n:
    row_\stride \n
    add     r0, r0, r12
    subs    lr, lr, #1
    bne     .Llong_\stride\()_\n
    b       .Llong_sums
    .endm

    .macro scale_long acc
    add     \acc, r3, \acc, lsl #1
    smmulr  \acc, \acc, r7
    add     \acc, \acc, \acc, asr #31
    asrs    \acc, \acc, r12
    adc     \acc, \acc, r11
    .endm

    function cortado_depthwise_long_row_s8__dsp
    push    {r4-r11, lr}
    sub     sp, sp, #FRAME
    str     r0, [sp, #PLAN]
    ldr     r5, [r0, #LONG_STEP]
    ldr     r6, [r0, #LONG_OFFSET]
    strd    r5, r6, [sp, #STEP]
    ldr     r8, [r0, #LONG_ROW_BYTES]
    ldr     r9, [r0, #LONG_KERNEL_H]
    ldr     r10, [r0, #LONG_LOOP]
    ldr     r12, [r0, #LONG_BACK]
    ldr     r4, [r0, #LONG_DATA]
    ldr     r5, [r0, #LONG_EACH]
    adr     r3, .Llong_loops
    ldr     r10, [r3, r10, lsl #2]
    adds    r1, r1, #12
    ldr     r11, [r0, #LONG_ENTRY]
    add     r10, r10, r3
    add     r10, r10, r11
    orr     r10, r10, #1
    add     r7, sp, #STREAM
    stm     r7, {r1, r8, r9, r10, r12}
    movs    r6, #4
    add     r7, sp, #X
    stm     r7, {r4, r5, r6}
    /* One turn: one output of one channel. r0 P   r2 where its row begins   r4 its first word */
.Llong_channel:
    ldr     r3, [r0, #LONG_STATE]
    mov     r0, r4
    str     r2, [sp, #START]
    strd    r2, r3, [sp, #OUT]
    b       .Llong_tile
    .p2align 2
    /* Where the loops are, from here. */
.Llong_loops:
    .word   .Llong_1_2 - .Llong_loops
    .word   .Llong_2_2 - .Llong_loops
    .word   .Llong_1_3 - .Llong_loops
    .word   .Llong_2_3 - .Llong_loops
    .word   .Llong_1_4 - .Llong_loops
    .word   .Llong_2_4 - .Llong_loops
    .word   .Llong_1_5 - .Llong_loops
    .word   .Llong_2_5 - .Llong_loops
    .word   .Llong_five - .Llong_loops
    rows    1, 2
    rows    2, 2
    rows    1, 3
    rows    2, 3
    rows    1, 4
    rows    2, 4
    rows    1, 5
    rows    2, 5
.Llong_five:
    .rept   5
    ldr.w   r2, [r1, #4]
    ldr.w   r3, [r1, #8]
    ldr.w   r8, [r1], #12
    ldr.w   r9, [r0]
    ldr.w   r10, [r0, #16]
    ldr.w   r11, [r0, #32]
    ldr.w   lr, [r0, #48]
    both    r9, r10, r2
    both    r10, r11, r3
    both    r11, lr, r8
    add.w   r0, r0, r12
    .endr
    b       .Llong_sums
    /* One turn: four outputs, the first of them together with the tile before. */
.Llong_tile:
    ldr     r1, [sp, #STREAM]
    ldr     r12, [sp, #ROW_BYTES]
    ldr     lr, [sp, #KERNEL_H]
    mov     r4, #1 << (LONG_LANE - 1)
    mov     r5, #1 << (2 * LONG_LANE - 33)
    mov     r6, r4
    mov     r7, r5
    ldr     pc, [sp, #LOOP]
.Llong_sums:
    ldr     r12, [sp, #BACK]
    ldr     r1, [sp, #STREAM]
    subs    r0, r0, r12
    ldm     sp, {r3, r8, r9, r10, r11}
    ubfx    r2, r4, #0, #LONG_LANE
    add     r2, r2, r3
    lsrs    r4, r4, #LONG_LANE
    bfi     r4, r5, #32 - LONG_LANE, #2 * LONG_LANE - 32
    ubfx    r3, r6, #0, #LONG_LANE
    add     r5, r3, r5, asr #2 * LONG_LANE - 32
    lsrs    r6, r6, #LONG_LANE
    bfi     r6, r7, #32 - LONG_LANE, #2 * LONG_LANE - 32
    asrs    r7, r7, #2 * LONG_LANE - 32
    str     r7, [sp, #CARRY]
    ldmdb   r1, {r3, r7, r12}
    scale_long r2
    scale_long r4
    scale_long r5
    scale_long r6
    ssat    r2, #8, r2
    ssat    r4, #8, r4
    ssat    r5, #8, r5
    ssat    r6, #8, r6
    subs    r9, r9, #1
    str     r9, [sp, #STATE]
    ble     .Llong_special
    /* Here also from below, with outputs that are limited. */
.Llong_store:
    strb    r2, [r8]
    add     r8, r8, r10
    strb    r4, [r8]
    add     r8, r8, r10
    strb    r5, [r8]
    add     r8, r8, r10
    strb    r6, [r8]
    add     r8, r8, r10
    str     r8, [sp, #OUT]
    b       .Llong_tile
    /* The first tile, the last one, or outputs that are limited. */
.Llong_special:
    ldr     lr, [sp, #PLAN]
    tst     r9, #LONG_CLAMPED
    beq     .Llong_unlimited
    ldr     r3, [lr, #LONG_LOW]
    ldr     r7, [lr, #LONG_HIGH]
    bfi     r2, r4, #8, #8
    bfi     r2, r5, #16, #8
    bfi     r2, r6, #24, #8
    ssub8   r5, r2, r3
    sel     r2, r2, r3
    ssub8   r5, r7, r2
    sel     r2, r2, r7
    lsrs    r4, r2, #8
    lsrs    r5, r2, #16
    lsrs    r6, r2, #24
.Llong_unlimited:
    uxth    r3, r9
    tst     r9, #LONG_FIRST_TILE
    bne     .Llong_first
    cmp     r3, #0
    bne     .Llong_store
    ldr     r7, [lr, #LONG_LAST]
    strb    r2, [r8]
    add     r8, r8, r10
    cmp     r7, #2
    blt     .Llong_end
    b       .Llong_second
.Llong_first:
    bic     r9, r9, #LONG_FIRST_TILE
    tst     r9, #LONG_CLAMPED
    it      eq
    biceq   r9, r9, #LONG_SPECIAL
    str     r9, [sp, #STATE]
    movs    r7, #4
    cmp     r3, #0
    it      eq
    ldreq   r7, [lr, #LONG_LAST]
    ldr     r2, [lr, #LONG_SKIP]
    cmp     r2, #2
    beq     .Llong_third
.Llong_second:
    strb    r4, [r8]
    add     r8, r8, r10
.Llong_third:
    cmp     r7, #3
    itt     hs
    strbhs  r5, [r8]
    addhs   r8, r8, r10
    cmp     r7, #4
    itt     hs
    strbhs  r6, [r8]
    addhs   r8, r8, r10
    str     r8, [sp, #OUT]
    cmp     r3, #0
    bne     .Llong_tile
.Llong_end:
    /* The next output of the same channel, or of the next one. */
    ldr     r3, [sp, #STREAM]
    ldr     r6, [lr, #LONG_STREAM_BYTES]
    ldr     r4, [sp, #X]
    ldr     r2, [sp, #START]
    ldrd    r5, r7, [sp, #EACH]
    add     r3, r3, r6
    str     r3, [sp, #STREAM]
    adds    r2, r2, #1
    mov     r0, lr
    subs    r5, r5, #1
    bne     .Llong_more
    ldr     r5, [lr, #LONG_EACH]
    adds    r4, r4, #4
    str     r4, [sp, #X]
    subs    r7, r7, #1
    beq     .Llong_return
.Llong_more:
    strd    r5, r7, [sp, #EACH]
    b       .Llong_channel
.Llong_return:
    sub     r0, r3, #12
    add     sp, sp, #FRAME
    pop     {r4-r11, pc}
    .size   cortado_depthwise_long_row_s8__dsp, . - cortado_depthwise_long_row_s8__dsp

#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
