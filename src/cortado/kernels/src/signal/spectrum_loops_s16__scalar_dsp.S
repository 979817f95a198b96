/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of spectra, for cores without vector instructions: spectrum_loops_s16__scalar_dsp.h. Complex numbers
 * are two words, the real part first; twiddles have the cosine below and the sine above, both negated.
 *
 *   void cortado_spectrum_first2_s16(const cortado_spectrum_samples_t *S, const int32_t *stream, cortado_bin_t *z)
 *   void cortado_spectrum_first3_s16(...)
 *   void cortado_spectrum_first4_s16(...)
 *   void cortado_spectrum_fours_s16(cortado_complex_t *z, const int32_t *twiddles, int32_t q, int32_t count)
 *   void cortado_spectrum_powers_s16(cortado_bin_t *first, cortado_bin_t *last, const int32_t *turns)
 *   void cortado_spectrum_sizes_s16(cortado_bin_t *first, cortado_bin_t *last, const int32_t *turns,
 *                                   const int16_t *roots)
 *
 * and on small cores, where those are C, instead
 *
 *   uint64_t cortado_spectrum_power_sum_s16(const cortado_bin_t *bin, const uint16_t *w, int32_t n)
 *   uint64_t cortado_spectrum_size_sum_s16(...)
 *
 * Tile: 1 butterfly. Scratch: none of their own.
 */
#include "cortado_asm.h"

#if defined(__thumb__) && CORTADO_SMALL_CORE

/* ---- small -----------------------------------------------------------------------------------------------------
 *
 * Products of halves. The sums of those of 2^0 and of 2^32 are one of 64 bits, whose carries are counted.
 *
 *   r0 bin   r1 w   r2 weight   r3, r4 products   r5, r6 sums of 2^0 and 2^32   r7 of 2^16   r8 of 2^48
 *   r9 carries   r10 1   r12 end
 */
    .macro sum_begin
    push    {r4-r7, lr}
    mov     r4, r8
    mov     r5, r9
    mov     r6, r10
    push    {r4-r6}
    lsls    r2, r2, #3
    adds    r2, r2, r0
    mov     r12, r2
    movs    r5, #0
    movs    r6, #0
    movs    r7, #0
    mov     r8, r5
    mov     r9, r5
    movs    r2, #1
    mov     r10, r2
    .endm

    .macro sum_end
    pop     {r4-r6}
    mov     r8, r4
    mov     r9, r5
    mov     r10, r6
    pop     {r4-r7, pc}
    .endm

    function CORTADO_ISA(cortado_spectrum_power_sum_s16)
    sum_begin
    /* One turn: one bin. */
.Lpower_sum:
    ldrh    r2, [r1]
    ldrh    r3, [r0]
    ldrh    r4, [r0, #4]
    muls    r3, r2, r3
    muls    r4, r2, r4
    adds    r5, r5, r3
    adcs    r6, r6, r4
    bcc     .Lno_carry
    add     r9, r9, r10
.Lno_carry:
    ldrh    r3, [r0, #2]
    ldrh    r4, [r0, #6]
    muls    r3, r2, r3
    muls    r4, r2, r4
    adds    r7, r7, r3
    bcc     .Lno_high_carry
    add     r8, r8, r10
.Lno_high_carry:
    add     r8, r8, r4
    adds    r1, r1, #2
    adds    r0, r0, #8
    cmp     r0, r12
    bne     .Lpower_sum
    lsrs    r5, r5, #16
    lsls    r3, r6, #16
    orrs    r5, r5, r3
    lsrs    r1, r6, #16
    mov     r3, r9
    lsls    r3, r3, #16
    adds    r1, r1, r3
    mov     r3, r8
    adds    r0, r5, r7
    adcs    r1, r1, r3
    sum_end
    .size   CORTADO_ISA(cortado_spectrum_power_sum_s16), . - CORTADO_ISA(cortado_spectrum_power_sum_s16)

    function CORTADO_ISA(cortado_spectrum_size_sum_s16)
    sum_begin
    /* One turn: one bin. */
.Lsize_sum:
    ldrh    r2, [r1]
    ldrh    r3, [r0]
    ldrh    r4, [r0, #2]
    muls    r3, r2, r3
    muls    r4, r2, r4
    adds    r5, r5, r3
    bcc     .Lno_low_carry
    add     r8, r8, r10
.Lno_low_carry:
    adds    r7, r7, r4
    bcc     .Lno_middle_carry
    add     r9, r9, r10
.Lno_middle_carry:
    adds    r1, r1, #2
    adds    r0, r0, #8
    cmp     r0, r12
    bne     .Lsize_sum
    lsls    r3, r7, #16
    lsrs    r1, r7, #16
    mov     r4, r9
    lsls    r4, r4, #16
    adds    r1, r1, r4
    mov     r4, r8
    adds    r0, r5, r3
    adcs    r1, r1, r4
    sum_end
    .size   CORTADO_ISA(cortado_spectrum_size_sum_s16), . - CORTADO_ISA(cortado_spectrum_size_sum_s16)

#elif defined(__thumb__)

/* ---- long and DSP ---------------------------------------------------------------------------------------------- */

    /* (\re, \im) times the twiddle \w as (\to, \im). \re and \w are lost, without DSP instructions \x and \y too. */
    .macro turned to, re, im, w, x, y
#if defined(__ARM_FEATURE_DSP)
    smulwb  \to, \re, \w
    smulwt  \re, \re, \w
    smlawt  \to, \im, \w, \to
    smulwb  \im, \im, \w
    sub     \im, \im, \re
#else
    lsl     \x, \w, #16
    bfc     \w, #0, #16
    smull   \y, \to, \re, \x
    smull   \y, \re, \re, \w
    smull   \y, \x, \im, \x
    smull   \y, \im, \im, \w
    add     \to, \to, \im
    sub     \im, \x, \re
#endif
    .endm

/* Radix 4.
 *
 *   r0 to r3 the four legs   r4 twiddles   r5 to r12, lr numbers
 */

/* Frame. */
#define END 0 /* of the first leg */
#define KEPT 4
#define TWIDDLES 8
#define LEG 12 /* bytes */
#define GROUPS 16
#define FRAME 20

    function CORTADO_ISA(cortado_spectrum_fours_s16)
    push    {r4-r11, lr}
    sub     sp, sp, #FRAME
    lsl     r5, r2, #3
    str     r1, [sp, #TWIDDLES]
    str     r5, [sp, #LEG]
    str     r3, [sp, #GROUPS]
    mov     r4, r1
    add     r1, r0, r5
    add     r2, r1, r5
    add     r3, r2, r5
    /* One turn: one group. */
.Lfours_group:
    str     r1, [sp, #END]
    /* One turn: one butterfly. */
.Lfours:
    ldrd    r5, r6, [r1]
    ldr     r7, [r4], #4
    turned  r8, r5, r6, r7, r9, r10
    ldrd    r5, r7, [r3]
    ldr     r9, [r4, #4]
    turned  r10, r5, r7, r9, r11, r12
    add     r5, r8, r10
    sub     r8, r8, r10
    add     r9, r6, r7
    sub     r6, r6, r7
    ldrd    r7, r10, [r2]
    ldr     r11, [r4], #8
#if defined(__ARM_FEATURE_DSP)
    turned  r12, r7, r10, r11
#else
    str     r8, [sp, #KEPT]
    turned  r12, r7, r10, r11, lr, r8
    ldr     r8, [sp, #KEPT]
#endif
    ldrd    r7, r11, [r0]
    rsb     lr, r12, r7, asr #1
    add     r12, r12, r7, asr #1
    rsb     r7, r10, r11, asr #1
    add     r10, r10, r11, asr #1
    sub     r11, lr, r5
    add     lr, lr, r5
    sub     r5, r7, r9
    add     r7, r7, r9
    strd    r11, r5, [r0], #8
    strd    lr, r7, [r2], #8
    sub     r11, r12, r6
    add     r12, r12, r6
    add     r6, r10, r8
    sub     r10, r10, r8
    strd    r11, r6, [r1], #8
    strd    r12, r10, [r3], #8
    ldr     r5, [sp, #END]
    cmp     r0, r5
    bne     .Lfours
    /* The next group is three legs ahead. */
    ldr     r6, [sp, #GROUPS]
    subs    r6, r6, #1
    beq     .Lfours_return
    str     r6, [sp, #GROUPS]
    ldrd    r4, r5, [sp, #TWIDDLES]
    add     r5, r5, r5, lsl #1
    add     r0, r0, r5
    add     r1, r1, r5
    add     r2, r2, r5
    add     r3, r3, r5
    b       .Lfours_group
.Lfours_return:
    add     sp, sp, #FRAME
    pop     {r4-r11, pc}
    .size   CORTADO_ISA(cortado_spectrum_fours_s16), . - CORTADO_ISA(cortado_spectrum_fours_s16)

/* The first stage.
 *
 *   r0 samples   r1 stream   r2 z   r3 a word of the stream   r4 bytes of a leg   r5 factor, without DSP instructions
 *   a left shift   r6 to r12, lr numbers
 */

    /* Two samples, windowed: (\re, \im). */
    .macro windowed re, im, from:vararg
    ldr     r3, [\from]
#if defined(__ARM_FEATURE_DSP)
    smulbb  \re, r3, r5
    smultb  \im, r3, r5
    ldr     r3, [r1], #4
    smulwb  \re, r3, \re
    ldr     r3, [r1], #4
    smulwb  \im, r3, \im
#else
    lsl     \re, r3, r5
    lsr     \im, r3, #16
    lsl     \im, \im, r5
    ldr     r3, [r1], #4
    smull   r3, \re, r3, \re
    ldr     r3, [r1], #4
    smull   r3, \im, r3, \im
#endif
    .endm

    /* (\ar \op \br, \ai \other \bi) to byte \place of the butterfly. */
    .macro put_sum ar, br, op, ai, bi, other, place
    \op     r12, \ar, \br
    \other  lr, \ai, \bi
    strd    r12, lr, [r3, #\place]
    .endm

    .macro first legs, odd_re, odd_im
    push    {r4-r11, lr}
    ldm     r0, {r0, r3, r4, r5}
    push    {r3}
    /* One turn: one butterfly. */
.Lfirst\legs:
    windowed r6, r7, r0
    .if \legs > 2
    windowed r8, r9, r0, r4, lsl #1
    sub     r10, r6, r8
    sub     r11, r7, r9
    add     r6, r6, r8
    add     r7, r7, r9
    .endif
    windowed r8, r9, r0, r4
    .if \legs > 3
    add     r3, r4, r4, lsl #1
    windowed r12, lr, r0, r3
    add     r8, r8, r12
    sub     r12, r8, r12, lsl #1
    add     r9, r9, lr
    sub     lr, r9, lr, lsl #1
    ldr     r3, [r1], #4
    add     r3, r2, r3
    add     r6, r6, r8
    sub     r8, r6, r8, lsl #1
    add     r7, r7, r9
    sub     r9, r7, r9, lsl #1
    strd    r6, r7, [r3]
    strd    r8, r9, [r3, #16]
    add     r10, r10, lr
    sub     lr, r10, lr, lsl #1
    sub     r11, r11, r12
    add     r12, r11, r12, lsl #1
    strd    r10, r11, [r3, #8]
    strd    lr, r12, [r3, #24]
    .else
    ldr     r3, [r1], #4
    add     r3, r2, r3
    put_sum r6, r8, add, r7, r9, add, 0
    put_sum r6, r8, sub, r7, r9, sub, 16
    put_sum \odd_re, r9, add, \odd_im, r8, sub, 8
    put_sum \odd_re, r9, sub, \odd_im, r8, add, 24
    .endif
    ldr     r3, [sp]
    adds    r0, r0, #4
    cmp     r0, r3
    bne     .Lfirst\legs
    pop     {r3}
    pop     {r4-r11, pc}
    .endm

    function CORTADO_ISA(cortado_spectrum_first2_s16)
    first   2, r6, r7
    .size   CORTADO_ISA(cortado_spectrum_first2_s16), . - CORTADO_ISA(cortado_spectrum_first2_s16)

    function CORTADO_ISA(cortado_spectrum_first3_s16)
    first   3, r10, r11
    .size   CORTADO_ISA(cortado_spectrum_first3_s16), . - CORTADO_ISA(cortado_spectrum_first3_s16)

    function CORTADO_ISA(cortado_spectrum_first4_s16)
    first   4
    .size   CORTADO_ISA(cortado_spectrum_first4_s16), . - CORTADO_ISA(cortado_spectrum_first4_s16)

/* From pairs to reals.
 *
 *   r0 bin from below   r1 bin from above   r2 turns   r3 to r10, lr numbers   r11 roots, as if from that of 0 on
 */

    /* Bins k and M - k as (r6, r7) and (r3, r4); r5, r8 to r10 are free. */
    .macro two_bins
    ldrd    r3, r4, [r0]
    ldrd    r5, r6, [r1]
    ldr     r7, [r2], #4
    add     r8, r4, r6
    sub     r9, r5, r3
    add     r3, r3, r5
    sub     r4, r4, r6
    turned  r5, r8, r9, r7, r6, r10
    rsb     r6, r5, r3, asr #1
    rsb     r7, r9, r4, asr #1
    add     r3, r5, r3, asr #1
    add     r4, r9, r4, asr #1
    .endm

    function CORTADO_ISA(cortado_spectrum_powers_s16)
    push    {r4-r10, lr}
    /* One turn: two bins. Of the middle one the first form is left. */
.Lpowers:
    two_bins
    smull   r5, r8, r3, r3
    smlal   r5, r8, r4, r4
    strd    r5, r8, [r1], #-8
    smull   r5, r8, r6, r6
    smlal   r5, r8, r7, r7
    strd    r5, r8, [r0], #8
    cmp     r0, r1
    bls     .Lpowers
    pop     {r4-r10, pc}
    .size   CORTADO_ISA(cortado_spectrum_powers_s16), . - CORTADO_ISA(cortado_spectrum_powers_s16)

    /* 2 * sqrt(\re^2 + \im^2) as \im: the parts with 15 bits, then a line between two roots of the table. */
    .macro size_of re, im
    eor     r5, \re, \re, asr #31
    eor     r8, \im, \im, asr #31
    orr     r5, r5, r8
    clz     r5, r5
    rsb     r5, r5, #17
    usat    r5, #5, r5
    asr     \re, \re, r5
    asr     \im, \im, r5
    mul     \re, \re, \re
    mla     \im, \im, \im, \re
    cbz     \im, .Lno_size_\@
    clz     r8, \im
    bic     r8, r8, #1
    lsl     \im, \im, r8
    rsb     r5, r5, r8, lsr #1
    lsr     r9, \im, #24
    add     r9, r11, r9, lsl #1
    ldrh    \re, [r9]
    ldrh    r9, [r9, #2]
    ubfx    \im, \im, #8, #16
    sub     r9, r9, \re
#if defined(__ARM_FEATURE_DSP)
    smlawb  \re, \im, r9, \re
#else
    mul     r9, r9, \im
    add     \re, \re, r9, lsr #16
#endif
    add     r5, r5, #15
    lsl     \re, \re, #16
    lsr     \im, \re, r5
.Lno_size_\@:
    .endm

    function CORTADO_ISA(cortado_spectrum_sizes_s16)
    push    {r4-r11, lr}
    sub     r11, r3, #128
    /* One turn: two bins. Of the middle one the first form is left. */
.Lsizes:
    two_bins
    size_of r3, r4
    str     r4, [r1], #-8
    size_of r6, r7
    str     r7, [r0], #8
    cmp     r0, r1
    bls     .Lsizes
    pop     {r4-r11, pc}
    .size   CORTADO_ISA(cortado_spectrum_sizes_s16), . - CORTADO_ISA(cortado_spectrum_sizes_s16)

#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
