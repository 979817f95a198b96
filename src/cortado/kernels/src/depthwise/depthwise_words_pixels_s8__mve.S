/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns of an image as words, and depthwise outputs of a run of pixels from them, with vector instructions:
 * depthwise_words_pixels_s8__mve.h.
 *
 *   void cortado_words_columns_s8__mve(const cortado_words_columns_t *C, void *to, int32_t columns, int32_t skip)
 *   void cortado_depthwise_words_pixels_s8__mve(const cortado_words_t *W, int8_t *out, int32_t pixels)
 *
 * Tile: 2 pixels x 4 outputs. Scratch: none of its own; the words are the kernel's.
 *
 * The bytes of one channel in four rows of a column are a word, so the window of an output is four words, one from each
 * of its columns: one load gathers it, and one instruction adds its sixteen products. Four sums become outputs beside
 * the products of the next four, so the stream has, for each four outputs a, b, c, d:
 *
 *   | biases 4 x 4 | multipliers 4 x 4 | shifts 4 x 4, negative: to the right |  of the four before, first: of the last
 *   | channels of a, b, 4 each | weights of a, 4 of each column | weights of b |  and the same of c and d
 *
 * Those that make a four whole are zeros. A channel is the offset of its word. An odd last pixel is both pixels of a
 * pair.
 *
 *   r0, r2, r4, r6 sums of a to d of the first pixel   r8, r10, r12, lr of the second   r4 output offset
 *   r9 behind the stream of a to d   r5, r7 channels   r11 outputs left   r3, r1 outputs of the four before
 *   q0, q1 the pixels' columns   q2 weights   q3 x   q4 factors   q5, q6 sums of the four before   q7 low
 */
#include "cortado_asm.h"
#include "depthwise_words_pixels_s8__mve.h"

#if defined(__ARM_FEATURE_MVE)

    function cortado_words_columns_s8__mve
    push    {r4-r11, lr}
    mov     lr, r2
    mov     r12, r0
    ldm     r12!, {r4-r11}
    ldrd    r2, r12, [r12]
    cmp     r3, #0
    blt     .Lcolumns_outside
    cbnz    r2, .Lcolumns_together
    cmp     r8, #0
    it      ne
    addne   r4, r4, r3
    cmp     r9, #0
    it      ne
    addne   r5, r5, r3
    cmp     r10, #0
    it      ne
    addne   r6, r6, r3
    cmp     r11, #0
    it      ne
    addne   r7, r7, r3
    b       .Lcolumns_apart
.Lcolumns_outside:
    ldr     r4, [r0, #COLUMNS_ZERO]
    movs    r2, #0
    mov     r5, r4
    mov     r6, r4
    mov     r7, r4
    mov     r8, r2
    mov     r9, r2
    mov     r10, r2
    mov     r11, r2
.Lcolumns_apart:
    mov     r3, r12
    lsrs    r0, r3, #2
    dls     lr, lr
    b       .Lcolumns_piece
.Lcolumns_together:
    /* All bytes of the columns, sixteen a piece. */
    add     r4, r4, r3
    add     r5, r5, r3
    add     r6, r6, r3
    add     r7, r7, r3
    mul     r0, lr, r8
    mov     r8, #16
    mov     r9, r8
    mov     r10, r8
    mov     r11, r8
    movs    r3, #64
    add     r12, r0, #15
    lsr     r12, r12, #4
    dls     lr, r12
    /* One turn: one piece. */
.Lcolumns_piece:
    vctp.8  r0
    vpstttt
    vldrbt.8 q0, [r4]
    vldrbt.8 q1, [r5]
    vldrbt.8 q2, [r6]
    vldrbt.8 q3, [r7]
    add     r4, r4, r8
    add     r5, r5, r9
    vst40.8 {q0, q1, q2, q3}, [r1]
    add     r6, r6, r10
    vst41.8 {q0, q1, q2, q3}, [r1]
    add     r7, r7, r11
    vst42.8 {q0, q1, q2, q3}, [r1]
    subs    r0, r0, r2
    vst43.8 {q0, q1, q2, q3}, [r1]
    add     r1, r1, r3
    le      lr, .Lcolumns_piece
    pop     {r4-r11, pc}
    .size   cortado_words_columns_s8__mve, . - cortado_words_columns_s8__mve

/* Frame. */
#define HIGH 0    /* of outputs, in all lanes */
#define W 16      /* the layer */
#define OFFSET 20 /* of outputs */
#define OUT 24    /* of the next pixel; PIXELS is read with it */
#define PIXELS 28 /* left */
#define HERE 32   /* where four outputs of the two pixels go */
#define FRAME 40

/* The stream of four outputs. */
#define BIASES 0
#define MULTIPLIERS 16
#define SHIFTS 32
#define PRODUCTS 48
#define FOUR 128

    .macro load to, at
    vldrw.32 \to, [r9, #\at - FOUR]
    .endm

    function cortado_depthwise_words_pixels_s8__mve
    push    {r4-r11, lr}
    vpush   {d8-d15}
    sub     sp, sp, #FRAME
    strd    r1, r2, [sp, #OUT]
    str     r0, [sp, #W]
    ldrd    r4, r5, [r0, #WORDS_LOW]
    vdup.32 q7, r4
    vdup.32 q6, r5
    ldr     r4, [r0, #WORDS_OFFSET]
    vstrw.32 q6, [sp, #HIGH]
    ldrd    r5, r7, [r0, #WORDS_COLUMN]
    str     r4, [sp, #OFFSET]
    ldr     r9, [r0, #WORDS_FROM]
    movs    r4, #0
    vctp.32 r4
    vidup.u32 q0, r4, #1
    vdup.32 q1, r7
    vmul.i32 q0, q0, r5
    vmin.u32 q0, q0, q1
    vadd.i32 q0, q0, r9
    /* One turn: two pixels. */
.Lwords_pixels:
    ldrd    r2, r4, [sp, #OUT]
    ldrd    r5, r7, [r0, #WORDS_STEP]
    ldrd    r9, r11, [r0, #WORDS_STREAM]
    cmp     r4, #1
    itt     eq
    moveq   r5, #0
    moveq   r7, #0
    vadd.i32 q1, q0, r5
    adds    r6, r2, r7
    subs    r4, r4, #2
    strd    r2, r6, [sp, #HERE]
    adds    r2, r6, r7
    strd    r2, r4, [sp, #OUT]
    add     r9, r9, #FOUR
    /* One turn: four outputs. Ties go away from zero: negative values are decremented before the shift. */
.Lwords_four:
    ldrd    r5, r7, [r9, #PRODUCTS - FOUR]
    load    q4, BIASES
    vldrw.u32 q3, [r5, q0]
    vadd.i32 q5, q5, q4
    load    q2, (PRODUCTS + 8)
    vmladav.s8 r0, q2, q3
    vadd.i32 q6, q6, q4
    load    q4, MULTIPLIERS
    vqrdmulh.s32 q5, q5, q4
    vldrw.u32 q3, [r5, q1]
    vmladav.s8 r8, q2, q3
    load    q2, (PRODUCTS + 24)
    vqrdmulh.s32 q6, q6, q4
    vldrw.u32 q3, [r7, q0]
    vshr.s32 q4, q5, #31
    vmladav.s8 r2, q2, q3
    vadd.i32 q5, q5, q4
    vldrw.u32 q3, [r7, q1]
    vshr.s32 q4, q6, #31
    vmladav.s8 r10, q2, q3
    ldrd    r5, r7, [r9, #PRODUCTS + 40 - FOUR]
    vadd.i32 q6, q6, q4
    load    q4, SHIFTS
    vrshl.s32 q5, q5, q4
    load    q2, (PRODUCTS + 48)
    vrshl.s32 q6, q6, q4
    ldr     r4, [sp, #OFFSET]
    vldrw.u32 q3, [r5, q0]
    vadd.i32 q5, q5, r4
    vldrw.32 q4, [sp, #HIGH]
    vadd.i32 q6, q6, r4
    vmladav.s8 r4, q2, q3
    vmax.s32 q5, q5, q7
    vldrw.u32 q3, [r5, q1]
    vmax.s32 q6, q6, q7
    vmladav.s8 r12, q2, q3
    load    q2, (PRODUCTS + 64)
    vmin.s32 q5, q5, q4
    vldrw.u32 q3, [r7, q0]
    vmin.s32 q6, q6, q4
    vmladav.s8 r6, q2, q3
    vldrw.u32 q3, [r7, q1]
    vpst
    vstrbt.32 q5, [r3]
    vmladav.s8 lr, q2, q3
    vpst
    vstrbt.32 q6, [r1]
    vmov    d10, r0, r2
    ldrd    r3, r1, [sp, #HERE]
    vmov    d11, r4, r6
    adds    r5, r3, #4
    adds    r7, r1, #4
    vctp.32 r11
    vmov    d12, r8, r10
    strd    r5, r7, [sp, #HERE]
    add     r9, r9, #FOUR
    vmov    d13, r12, lr
    subs    r11, r11, #4
    bgt     .Lwords_four
    ldrd    r0, r5, [sp, #W]
    ldr     r4, [sp, #PIXELS]
    ldr     r6, [r0, #WORDS_STEP]
    cmp     r4, #0
    vadd.i32 q0, q1, r6
    bgt     .Lwords_pixels
    /* The last four, whose factors are the stream's first. */
    ldr     r9, [r0, #WORDS_STREAM]
    vldrw.32 q0, [r9, #BIASES]
    vldrw.32 q1, [r9, #MULTIPLIERS]
    vadd.i32 q5, q5, q0
    vqrdmulh.s32 q5, q5, q1
    vadd.i32 q6, q6, q0
    vqrdmulh.s32 q6, q6, q1
    vldrw.32 q4, [r9, #SHIFTS]
    vshr.s32 q2, q5, #31
    vshr.s32 q3, q6, #31
    vadd.i32 q5, q5, q2
    vadd.i32 q6, q6, q3
    vrshl.s32 q5, q5, q4
    vldrw.32 q0, [sp, #HIGH]
    vrshl.s32 q6, q6, q4
    vadd.i32 q5, q5, r5
    vadd.i32 q6, q6, r5
    vmax.s32 q5, q5, q7
    vmax.s32 q6, q6, q7
    vmin.s32 q5, q5, q0
    vmin.s32 q6, q6, q0
    vpstt
    vstrbt.32 q5, [r3]
    vstrbt.32 q6, [r1]
    add     sp, sp, #FRAME
    vpop    {d8-d15}
    pop     {r4-r11, pc}
    .size   cortado_depthwise_words_pixels_s8__mve, . - cortado_depthwise_words_pixels_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
