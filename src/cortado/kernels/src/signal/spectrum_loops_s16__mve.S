/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of spectra with vector instructions: spectrum_loops_s16__mve.h. Real parts and imaginary parts lie in
 * arrays of their own; twiddles are those of four butterflies side by side, negated.
 *
 *   void cortado_spectrum_samples_s16__mve(const int16_t *from, int16_t *to, int32_t n, int32_t *range)
 *   void cortado_spectrum_first2_s16__mve(const cortado_spectrum_planes_t *S, const int32_t *stream, int32_t count)
 *   void cortado_spectrum_first3_s16__mve(...)
 *   void cortado_spectrum_first4_s16__mve(...)
 *   void cortado_spectrum_fours_s16__mve(int32_t *re, int32_t *im, const int16_t *twiddles, int32_t q, int32_t count)
 *   void cortado_spectrum_fives_s16__mve(...)
 *   void cortado_spectrum_powers_s16__mve(int32_t *re, int32_t *im, const int16_t *turns, int32_t pairs)
 *   void cortado_spectrum_sizes_s16__mve(int32_t *re, int32_t *im, const int16_t *turns, int32_t pairs,
 *                                        const int16_t *roots)
 *   const int16_t *cortado_spectrum_power_sums_s16__mve(const cortado_spectrum_bands_t *B, const int16_t *weights,
 *                                                       uint32_t *sums, int32_t bands)
 *   const int16_t *cortado_spectrum_size_sums_s16__mve(...)
 *
 * Tile: 4 butterflies. Scratch: none of their own.
 */
#include "cortado_asm.h"
#include "spectrum_loops_s16__mve.h"

#if defined(__ARM_FEATURE_MVE)

/* ---- samples --------------------------------------------------------------------------------------------------
 *
 *   r0 from   r1 to   r2 n   r3 range: the largest and the least so far   r4, r12 these
 */
    function cortado_spectrum_samples_s16__mve
    push    {r4, lr}
    ldr     r4, [r3]
    ldr     r12, [r3, #4]
    dlstp.16 lr, r2
    /* One turn: eight samples. */
.Lsamples:
    vldrh.16 q0, [r0], #16
    vstrh.16 q0, [r1], #16
    vmaxv.s16 r4, q0
    vminv.s16 r12, q0
    letp    lr, .Lsamples
    str     r4, [r3]
    str     r12, [r3, #4]
    pop     {r4, pc}
    .size   cortado_spectrum_samples_s16__mve, . - cortado_spectrum_samples_s16__mve

/* ---- the first stage ------------------------------------------------------------------------------------------
 *
 *   r0, r3, r4, r5 samples of legs 0, 1, 2, 3   r1 stream   r2 shift   r6 where real parts begin   r7 from there to
 *   imaginary parts   lr butterflies left   q7 places
 */

    /* Two samples of each of four butterflies, windowed. */
    .macro windowed re, im, free, from, at
    vldrw.32 \re, [\from], #16
    vshr.s32 \im, \re, #16
    vldrw.32 \free, [r1, #\at]
    vshl.s32 \re, r2
    vmulh.s32 \re, \re, \free
    vldrw.32 \free, [r1, #(\at + 16)]
    vshl.s32 \im, r2
    vmulh.s32 \im, \im, \free
    .endm

    /* \a \op \b to number \place of each butterfly's results. */
    .macro put op, free, a, b, place
    \op     \free, \a, \b
    vstrw.32 \free, [q7, #(4 * \place)]
    .endm

    .macro first legs
    push    {r4-r7, lr}
    vpush   {d8-d15}
    sub     sp, sp, #32
    ldr     r3, [r0, #PLANES_LEG]
    ldrd    r6, r7, [r0, #PLANES_RE]
    dlstp.32 lr, r2
    ldr     r2, [r0, #PLANES_LEFT]
    ldr     r0, [r0, #PLANES_SAMPLES]
    add     r4, r0, r3, lsl #1
    add     r5, r4, r3
    add     r3, r0, r3
    /* One turn: four butterflies. */
.Lfirst\legs:
    windowed q0, q1, q2, r0, 0
    .if \legs > 2
    windowed q2, q3, q4, r4, 32
    vsub.i32 q4, q0, q2
    vsub.i32 q5, q1, q3
    vadd.i32 q0, q0, q2
    vadd.i32 q1, q1, q3
    .else
    vmov    q4, q0
    vmov    q5, q1
    .endif
    .if \legs > 3
    vstrw.32 q0, [sp]
    vstrw.32 q1, [sp, #16]
    windowed q2, q3, q0, r3, 64
    windowed q6, q7, q0, r5, 96
    vadd.i32 q0, q2, q6
    vsub.i32 q2, q2, q6
    vadd.i32 q6, q3, q7
    vsub.i32 q3, q3, q7
    vldrw.32 q7, [r1, #128]
    vadd.i32 q7, q7, r6
    put     vadd.i32, q1, q4, q3, 1
    put     vsub.i32, q4, q4, q3, 3
    vldrw.32 q1, [sp]
    put     vadd.i32, q4, q1, q0, 0
    put     vsub.i32, q1, q1, q0, 2
    vadd.i32 q7, q7, r7
    put     vsub.i32, q1, q5, q2, 1
    put     vadd.i32, q5, q5, q2, 3
    vldrw.32 q1, [sp, #16]
    put     vadd.i32, q4, q1, q6, 0
    put     vsub.i32, q1, q1, q6, 2
    .else
    windowed q2, q3, q6, r3, (32 * \legs - 32)
    vldrw.32 q7, [r1, #(32 * \legs)]
    vadd.i32 q7, q7, r6
    put     vadd.i32, q6, q0, q2, 0
    put     vsub.i32, q6, q0, q2, 2
    put     vadd.i32, q6, q4, q3, 1
    put     vsub.i32, q6, q4, q3, 3
    vadd.i32 q7, q7, r7
    put     vadd.i32, q6, q1, q3, 0
    put     vsub.i32, q6, q1, q3, 2
    put     vsub.i32, q6, q5, q2, 1
    put     vadd.i32, q6, q5, q2, 3
    .endif
    add     r1, r1, #(32 * \legs + 16)
    letp    lr, .Lfirst\legs
    add     sp, sp, #32
    vpop    {d8-d15}
    pop     {r4-r7, pc}
    .endm

    function cortado_spectrum_first2_s16__mve
    first   2
    .size   cortado_spectrum_first2_s16__mve, . - cortado_spectrum_first2_s16__mve

    function cortado_spectrum_first3_s16__mve
    first   3
    .size   cortado_spectrum_first3_s16__mve, . - cortado_spectrum_first3_s16__mve

    function cortado_spectrum_first4_s16__mve
    first   4
    .size   cortado_spectrum_first4_s16__mve, . - cortado_spectrum_first4_s16__mve

    /* Cosines or sines of four twiddles, in the upper halves of words. */
    .macro twiddles to, from:vararg
    vldrh.s32 \to, [\from]
    vshl.i32 \to, \to, #16
    .endm

    /* (\re, \im) times the twiddle of \c and \s as (\to, \im); \re and \s are lost. */
    .macro turned to, re, im, c, s
    vmulh.s32 \to, \re, \c
    vmulh.s32 \re, \re, \s
    vmulh.s32 \s, \im, \s
    vmulh.s32 \im, \im, \c
    vadd.i32 \to, \to, \s
    vsub.i32 \im, \im, \re
    .endm

    /* Four butterflies of radix 4: where the legs' real and imaginary parts lie and how far these places move on; \w
     * are the sines of leg 2. */
    .macro fours r_a, r_b, r_c, r_d, i_a, i_b, i_c, i_d, move_b, move_c, move_d, move_a, w, move_w
    vldrw.32 q0, [\r_b]
    vldrw.32 q1, [\i_b]
    twiddles q2, \w, #-24
    twiddles q3, \w, #-16
    turned  q4, q0, q1, q2, q3
    vldrw.32 q0, [\r_d]
    vldrw.32 q2, [\i_d]
    twiddles q3, \w, #8
    twiddles q5, \w, #16
    turned  q6, q0, q2, q3, q5
    vadd.i32 q0, q4, q6
    vsub.i32 q4, q4, q6
    vadd.i32 q3, q1, q2
    vsub.i32 q5, q1, q2
    vldrw.32 q1, [\r_c]
    vldrw.32 q2, [\i_c]
    twiddles q6, \w, #-8
    vmulh.s32 q7, q1, q6
    vmulh.s32 q6, q2, q6
    vldrh.s32 q1, [\w]\move_w
    vshl.i32 q1, q1, #16
    vmulh.s32 q2, q2, q1
    vadd.i32 q7, q7, q2
    vldrw.32 q2, [\r_c]
    vmulh.s32 q1, q2, q1
    vsub.i32 q6, q6, q1
    vldrw.32 q1, [\r_a]
    vshr.s32 q1, q1, #1
    vsub.i32 q2, q1, q7
    vadd.i32 q7, q1, q7
    vsub.i32 q1, q2, q0
    vadd.i32 q2, q2, q0
    vsub.i32 q0, q7, q5
    vadd.i32 q7, q7, q5
    vstrw.32 q0, [\r_b]\move_b
    vstrw.32 q2, [\r_c]\move_c
    vstrw.32 q7, [\r_d]\move_d
    vstrw.32 q1, [\r_a]\move_a
    vldrw.32 q1, [\i_a]
    vshr.s32 q1, q1, #1
    vsub.i32 q2, q1, q6
    vadd.i32 q6, q1, q6
    vsub.i32 q1, q2, q3
    vadd.i32 q2, q2, q3
    vadd.i32 q0, q6, q4
    vsub.i32 q6, q6, q4
    vstrw.32 q0, [\i_b]\move_b
    vstrw.32 q2, [\i_c]\move_c
    vstrw.32 q6, [\i_d]\move_d
    vstrw.32 q1, [\i_a]\move_a
    .endm

/* ---- radix 4 --------------------------------------------------------------------------------------------------
 *
 *   r0, r2, r3, r4 real parts of the four legs   r1, r5, r6, r8 imaginary parts   r7 twiddles   r9 those of the group
 *   r10 bytes of a leg   r11 groups   r12 turns of a group   lr turns left
 */
    function cortado_spectrum_fours_s16__mve
    push    {r4-r11, lr}
    vpush   {d8-d15}
    ldr     r11, [sp, #100]
    add     r9, r2, #24
    lsl     r10, r3, #2
    cmp     r3, #4
    beq     .Lshort
    lsr     r12, r3, #2
    add     r2, r0, r10
    add     r3, r2, r10
    add     r4, r3, r10
    add     r5, r1, r10
    add     r6, r5, r10
    add     r8, r6, r10
    add     r10, r10, r10, lsl #1
    /* One turn: one group. */
.Lgroup:
    mov     r7, r9
    dls     lr, r12
    /* One turn: four butterflies. */
.Lfours:
    fours   r0, r2, r3, r4, r1, r5, r6, r8, ", #16", ", #16", ", #16", ", #16", r7, ", #48"
    le      lr, .Lfours
    subs    r11, r11, #1
    beq     .Lfours_return
    add     r0, r0, r10
    add     r1, r1, r10
    add     r2, r2, r10
    add     r3, r3, r10
    add     r4, r4, r10
    add     r5, r5, r10
    add     r6, r6, r10
    add     r8, r8, r10
    b       .Lgroup
    /* Groups of four butterflies, whose legs lie one behind the other. */
.Lshort:
    mov     r7, r9
    dls     lr, r11
    /* One turn: one group. */
.Lshort_fours:
    fours   r0, "r0, #16", "r0, #32", "r0, #48", r1, "r1, #16", "r1, #32", "r1, #48", "", "", "", ", #64", r7, ""
    le      lr, .Lshort_fours
.Lfours_return:
    vpop    {d8-d15}
    pop     {r4-r11, pc}
    .size   cortado_spectrum_fours_s16__mve, . - cortado_spectrum_fours_s16__mve

/* ---- radix 5 --------------------------------------------------------------------------------------------------
 *
 *   r0 to r4 real parts of the five legs   r5 imaginary parts of one   r6 from one to the other   r7 twiddles
 *   r8, r9, r10, r11 cos(72 degrees), 1 + cos(144 degrees), sin(72 degrees) - 1, sin(144 degrees) - 1
 *   r12 turns of a group   lr turns left
 */

/* Frame. */
#define OUT_RE 0    /* leg 1 - leg 4 */
#define OUT_IM 16
#define OUTER 32    /* leg 1 + leg 4 */
#define GROUPS 48
#define LEGS 52     /* bytes of four legs */
#define TWIDDLES 56
#define FRAME 60

    .macro load_im to, leg
    add     r5, \leg, r6
    vldrw.32 \to, [r5]
    .endm

    /* To the imaginary parts of a leg; or to its real parts, of which it is the last. */
    .macro put5 part, number, leg
    .ifc    \part, im
    add     r5, \leg, r6
    vstrw.32 \number, [r5]
    .else
    vstrw.32 \number, [\leg], #16
    .endif
    .endm

    /* What the real or the imaginary parts become: \outer and \inner are sums of legs, q0 and \in differences of the
     * other parts, which are added to numbers 1 and 2 by \plus and to numbers 4 and 3 by \minus. */
    .macro fives_part part, outer, inner, in, out, plus, minus
    .ifc    \part, im
    load_im q7, r0
    .else
    vldrw.32 q7, [r0]
    .endif
    vshr.s32 q7, q7, #1
    vsub.i32 q4, q7, \outer
    vsub.i32 q4, q4, \inner
    put5    \part, q4, r0
    vqdmulh.s32 q0, \outer, r8
    vadd.i32 q4, q7, \inner
    vsub.i32 q4, q4, q0
    vqdmulh.s32 q0, \inner, r9
    vadd.i32 q7, q7, \outer
    vsub.i32 q4, q4, q0
    vqdmulh.s32 q0, \inner, r8
    vsub.i32 q7, q7, q0
    vqdmulh.s32 q0, \outer, r9
    vsub.i32 q7, q7, q0
    vldrw.32 q0, [sp, #\out]
    vqdmulh.s32 \outer, q0, r10
    vqdmulh.s32 \inner, \in, r11
    vadd.i32 \outer, \outer, q0
    vadd.i32 \inner, \inner, \in
    vadd.i32 \outer, \outer, \inner
    \plus   \inner, q4, \outer
    put5    \part, \inner, r1
    \minus  \inner, q4, \outer
    put5    \part, \inner, r4
    vqdmulh.s32 \outer, q0, r11
    vqdmulh.s32 \inner, \in, r10
    vadd.i32 \outer, \outer, q0
    vsub.i32 \outer, \outer, \in
    vsub.i32 \outer, \outer, \inner
    \plus   \inner, q7, \outer
    put5    \part, \inner, r2
    \minus  \inner, q7, \outer
    put5    \part, \inner, r3
    .endm

    function cortado_spectrum_fives_s16__mve
    push    {r4-r11, lr}
    vpush   {d8-d15}
    sub     sp, sp, #FRAME
    ldr     r4, [sp, #(FRAME + 100)]
    str     r4, [sp, #GROUPS]
    mov     r7, r2
    str     r7, [sp, #TWIDDLES]
    sub     r6, r1, r0
    lsr     r12, r3, #2
    lsl     r5, r3, #2
    add     r1, r0, r5
    add     r2, r1, r5
    add     r3, r2, r5
    add     r4, r3, r5
    lsl     r5, r5, #2
    str     r5, [sp, #LEGS]
    movw    r8, #:lower16:(20252 << 15)
    movt    r8, #:upper16:(20252 << 15)
    movw    r9, #:lower16:(12516 << 15)
    movt    r9, #:upper16:(12516 << 15)
    movw    r10, #:lower16:(-3208 << 15)
    movt    r10, #:upper16:(-3208 << 15)
    movw    r11, #:lower16:(-27015 << 15)
    movt    r11, #:upper16:(-27015 << 15)
    /* One turn: one group. */
.Lfives_group:
    dls     lr, r12
    /* One turn: four butterflies. */
.Lfives:
    vldrw.32 q0, [r1]
    load_im q1, r1
    twiddles q2, r7
    twiddles q3, r7, #8
    turned  q4, q0, q1, q2, q3
    vldrw.32 q0, [r4]
    load_im q2, r4
    twiddles q3, r7, #48
    twiddles q5, r7, #56
    turned  q6, q0, q2, q3, q5
    vadd.i32 q0, q4, q6
    vsub.i32 q4, q4, q6
    vadd.i32 q3, q1, q2
    vsub.i32 q1, q1, q2
    vstrw.32 q4, [sp, #OUT_RE]
    vstrw.32 q1, [sp, #OUT_IM]
    vstrw.32 q3, [sp, #OUTER]
    vldrw.32 q1, [r2]
    load_im q2, r2
    twiddles q4, r7, #16
    twiddles q5, r7, #24
    turned  q6, q1, q2, q4, q5
    vldrw.32 q1, [r3]
    load_im q4, r3
    twiddles q5, r7, #32
    twiddles q7, r7, #40
    turned  q3, q1, q4, q5, q7
    vadd.i32 q1, q6, q3
    vsub.i32 q6, q6, q3
    vadd.i32 q5, q2, q4
    vsub.i32 q2, q2, q4
    add     r7, r7, #64
    vldrw.32 q3, [sp, #OUTER]
    vstrw.32 q0, [sp, #OUTER]
    fives_part im, q3, q5, q6, OUT_RE, vadd.i32, vsub.i32
    vldrw.32 q3, [sp, #OUTER]
    fives_part re, q3, q1, q2, OUT_IM, vsub.i32, vadd.i32
    le      lr, .Lfives
    /* The next group is four legs ahead. */
    ldr     r5, [sp, #GROUPS]
    subs    r5, r5, #1
    beq     .Lfives_return
    str     r5, [sp, #GROUPS]
    ldr     r5, [sp, #LEGS]
    ldr     r7, [sp, #TWIDDLES]
    add     r0, r0, r5
    add     r1, r1, r5
    add     r2, r2, r5
    add     r3, r3, r5
    add     r4, r4, r5
    b       .Lfives_group
.Lfives_return:
    add     sp, sp, #FRAME
    vpop    {d8-d15}
    pop     {r4-r11, pc}
    .size   cortado_spectrum_fives_s16__mve, . - cortado_spectrum_fives_s16__mve

/* ---- from pairs to reals --------------------------------------------------------------------------------------
 *
 *   r0, r1 bins from below   r2 turns   r4, r5 where bins begin   r6 4   r7 1   lr bins left   q7 bins from above
 *   r8, r9 roots, as if from that of 0 on, and of the next   r10 16
 */

    /* What both begin with. */
    .macro split_begin
    mov     r4, r0
    mov     r5, r1
    movs    r6, #0
    vidup.u32 q0, r6, #1
    vdup.32 q7, r3
    vsub.i32 q7, q7, q0
    movs    r6, #4
    movs    r7, #1
    lsrs    r3, r3, #1
    adds    r3, r3, #1
    dlstp.32 lr, r3
    .endm

    /* Bins k and M - k as (q2, q3) and (q0, q1). */
    .macro two_bins
    vldrw.u32 q2, [r4, q7, uxtw #2]
    vldrw.u32 q3, [r5, q7, uxtw #2]
    vldrw.32 q0, [r0]
    vldrw.32 q1, [r1]
    vadd.i32 q4, q1, q3
    vsub.i32 q5, q2, q0
    vadd.i32 q0, q0, q2
    vsub.i32 q1, q1, q3
    twiddles q3, r2, #8
    vldrh.s32 q2, [r2], #16
    vshl.i32 q2, q2, #16
    vshr.s32 q0, q0, #1
    vshr.s32 q1, q1, #1
    turned  q6, q4, q5, q2, q3
    vsub.i32 q2, q0, q6
    vsub.i32 q3, q1, q5
    vadd.i32 q0, q0, q6
    vadd.i32 q1, q1, q5
    .endm

    /* \re^2 + \im^2: the upper words as \re, the lower ones as q5. */
    .macro power_of re, im
    vmul.i32 q4, \re, \re
    vmul.i32 q5, \im, \im
    vmulh.s32 \re, \re, \re
    vmulh.s32 \im, \im, \im
    vadd.i32 q5, q4, q5
    vadd.i32 \re, \re, \im
    vpt.u32 hi, q4, q5
    vaddt.i32 \re, \re, r7
    .endm

    function cortado_spectrum_powers_s16__mve
    push    {r4-r7, lr}
    vpush   {d8-d15}
    split_begin
    /* One turn: eight bins. Of the middle one the first form is left. */
.Lpowers:
    two_bins
    power_of q0, q1
    vstrw.32 q5, [r4, q7, uxtw #2]
    vstrw.32 q0, [r5, q7, uxtw #2]
    power_of q2, q3
    vstrw.32 q5, [r0], #16
    vstrw.32 q2, [r1], #16
    vsub.i32 q7, q7, r6
    letp    lr, .Lpowers
    vpop    {d8-d15}
    pop     {r4-r7, pc}
    .size   cortado_spectrum_powers_s16__mve, . - cortado_spectrum_powers_s16__mve

    /* 2 * sqrt(\re^2 + \im^2) as \im: the parts with 15 bits, then a line between two roots of the table; q4 to q6 are
     * lost. */
    .macro size_of re, im
    vcls.s32 q4, \re
    vcls.s32 q5, \im
    vmin.s32 q4, q4, q5
    vdup.32 q5, r10
    vmin.s32 q4, q4, q5
    vsub.i32 q4, q4, r10
    vshl.s32 \re, \re, q4
    vshl.s32 \im, \im, q4
    vmul.i32 \re, \re, \re
    vmul.i32 \im, \im, \im
    vadd.i32 \im, \im, \re
    vclz.i32 q5, \im
    vbic.i32 q5, #1
    vshl.u32 \re, \im, q5
    vshr.u32 q5, q5, #1
    vadd.i32 q4, q4, q5
    vshr.u32 q6, \re, #24
    vshl.i32 \re, \re, #8
    vptt.i32 ne, \im, zr
    vldrht.u32 q5, [r8, q6, uxtw #1]
    vldrht.u32 \im, [r9, q6, uxtw #1]
    vbic.i32 \re, #0xff00
    vsub.i32 \im, \im, q5
    vmulh.u32 \im, \im, \re
    vneg.s32 q4, q4
    vadd.i32 \im, \im, q5
    vadd.i32 q4, q4, r7
    vshl.u32 \im, \im, q4
    .endm

    function cortado_spectrum_sizes_s16__mve
    push    {r4-r10, lr}
    vpush   {d8-d15}
    ldr     r8, [sp, #96]
    sub     r8, r8, #128
    add     r9, r8, #2
    mov     r10, #16
    split_begin
    /* One turn: eight bins. Of the middle one the first form is left. */
.Lsizes:
    two_bins
    size_of q0, q1
    vstrw.32 q1, [r4, q7, uxtw #2]
    size_of q2, q3
    vstrw.32 q3, [r0], #16
    add     r1, r1, #16
    vsub.i32 q7, q7, r6
    letp    lr, .Lsizes
    vpop    {d8-d15}
    pop     {r4-r10, pc}
    .size   cortado_spectrum_sizes_s16__mve, . - cortado_spectrum_sizes_s16__mve

/* ---- bands ----------------------------------------------------------------------------------------------------
 *
 *   r0, r1 bins, lower and upper words   r2 starts   r3 counts   r4 weights   r5 sums   r6, r7, r10, r11 a sum
 *   r8, r9 bins of the band   r12 bands left   lr bins left
 */
    .macro sums_begin
    push    {r4-r11, lr}
    mov     r12, r3
    mov     r5, r2
    mov     r4, r1
    ldm     r0, {r0, r1, r2, r3}
    .endm

    function cortado_spectrum_power_sums_s16__mve
    sums_begin
    /* One turn: one band. */
.Lpower_sum:
    ldrh    r7, [r3], #2
    ldrh    r9, [r2], #2
    dlstp.32 lr, r7
    clrm    {r6, r7, r10, r11}
    add     r8, r0, r9, lsl #2
    add     r9, r1, r9, lsl #2
    /* One turn: four bins. */
.Lpower_bins:
    vldrh.u32 q0, [r4], #8
    vldrw.32 q1, [r8], #16
    vldrw.32 q2, [r9], #16
    vmlaldava.u32 r6, r7, q0, q1
    vmlaldava.u32 r10, r11, q0, q2
    letp    lr, .Lpower_bins
    lsrl    r6, r7, #16
    lsll    r10, r11, #16
    adds    r6, r6, r10
    adcs    r7, r7, r11
    str     r7, [r5, #16]
    str     r6, [r5], #4
    subs    r12, r12, #1
    bne     .Lpower_sum
    mov     r0, r4
    pop     {r4-r11, pc}
    .size   cortado_spectrum_power_sums_s16__mve, . - cortado_spectrum_power_sums_s16__mve

    function cortado_spectrum_size_sums_s16__mve
    sums_begin
    /* One turn: one band. */
.Lsize_sum:
    ldrh    r7, [r3], #2
    ldrh    r9, [r2], #2
    dlstp.32 lr, r7
    clrm    {r6, r7}
    add     r8, r0, r9, lsl #2
    /* One turn: four bins. */
.Lsize_bins:
    vldrh.u32 q0, [r4], #8
    vldrw.32 q1, [r8], #16
    vmlaldava.u32 r6, r7, q0, q1
    letp    lr, .Lsize_bins
    str     r7, [r5, #16]
    str     r6, [r5], #4
    subs    r12, r12, #1
    bne     .Lsize_sum
    mov     r0, r4
    pop     {r4-r11, pc}
    .size   cortado_spectrum_size_sums_s16__mve, . - cortado_spectrum_size_sums_s16__mve

#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
