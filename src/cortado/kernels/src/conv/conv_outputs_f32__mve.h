/* SPDX-License-Identifier: Apache-2.0
 *
 * Macros of assembly that makes outputs in float32 with vectors. Internal.
 *
 * Vectors take denormal numbers for zeros and make zeros of them. The core remembers if that happened: then nothing is
 * stored, the result isn't 0, and the outputs are to be made without vectors. (Two flags of FPSCR are lost.)
 */
#ifndef CONV_OUTPUTS_F32__MVE_H
#define CONV_OUTPUTS_F32__MVE_H

#include "cortado_asm.h"

#define DENORMALS 0x88 /* of FPSCR: one was read, one would have been the result */

/* Members of the tile to r1-r5; nothing is known of denormal numbers. */
    .macro begin
    push    {r4-r7, lr}
    sub     sp, sp, #4
    vpush   {d8-d15}
    vmrs    r7, fpscr
    tst     r7, #DENORMALS
    beq     .Lclear_\@
    bic     r7, r7, #DENORMALS
    vmsr    fpscr, r7
.Lclear_\@:
    ldm     r0, {r1-r5}
    .endm

    .macro leave
    movs    r0, #0
    vpop    {d8-d15}
    add     sp, sp, #4
    pop     {r4-r7, pc}
    .endm

/* Where outputs go, how many, and their bounds; none where there were denormal numbers. */
    .macro outputs
    vmrs    r7, fpscr
    ands    r7, r7, #DENORMALS
    beq     .Loutputs_\@
    mov     r0, r7
    vpop    {d8-d15}
    add     sp, sp, #4
    pop     {r4-r7, pc}
.Loutputs_\@:
    add     r0, r0, #TILE_F32_OUT
    ldm     r0, {r1-r5}
    movw    r6, #0
    movt    r6, #0x7FC0
    .endm

/* Four sums within their bounds, of NaN the canonical one, as far as there are r3 channels. (NaN counts as less than
 * anything, so it is left out there.) */
    .macro output sums, to
    vcmp.f32 eq, \sums, \sums
    vpst
    vcmpt.f32 lt, \sums, r4
    vpst
    vdupt.32 \sums, r4
    vcmp.f32 gt, \sums, r5
    vpst
    vdupt.32 \sums, r5
    vcmp.f32 ne, \sums, \sums
    vpst
    vdupt.32 \sums, r6
    vctp.32 r3
    vpst
    vstrwt.32 \sums, [\to], #16
    .endm

/* Four channels fewer. */
    .macro four_more
    subs    r3, r3, #4
    it      mi
    movmi   r3, #0
    .endm

#endif /* CONV_OUTPUTS_F32__MVE_H */
