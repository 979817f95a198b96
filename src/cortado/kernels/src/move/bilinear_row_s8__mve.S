/* SPDX-License-Identifier: Apache-2.0
 *
 * One row of a bilinear resizing with vector instructions: upsample_bilinear_s8__mve.c.
 *
 *   void cortado_bilinear_row_s8__mve(const cortado_bilinear_t *L, const int8_t *top, const int8_t *bottom,
 *                                     int32_t down, int8_t *out)
 *
 * Tile: 1 pixel x 4 channels. Scratch: none.
 *
 * The four weights of a pixel are those of the portable kernel: where one of them is 0 because there is no next row or
 * column, the same one is read again.
 *
 *   r0 channels   r1 out   r2 columns   r3 place, then output of this pixel   r4, r5 top at this column and the next
 *   r6, r7 bottom alike   r8 to r11 weights in this order   r12 down   lr turns left
 *   q0 top, then sums   q1 bottom   q2, q3 top and bottom at the next column
 */
#include "cortado_asm.h"
#include "cortado_offsets.h"

#if defined(__ARM_FEATURE_MVE)

#define ROWS 0 /* top and bottom, then the pixels left */
#define LEFT 8
#define OUT 48 /* where out was passed, behind the saved registers */

    function cortado_bilinear_row_s8__mve
    push    {r4-r11, lr}
    sub     sp, sp, #12
    mov     r12, r3
    strd    r1, r2, [sp, #ROWS]
    ldr     r4, [r0, #CORTADO_BILINEAR_OUT_W]
    str     r4, [sp, #LEFT]
    ldr     r2, [r0, #CORTADO_BILINEAR_COLUMNS]
    ldr     r0, [r0, #CORTADO_BILINEAR_CHANNELS]
    ldr     r1, [sp, #OUT]
    /* One turn: one pixel. */
.Lbilinear_pixel:
    ldr     r3, [r2], #4
    ldrd    r4, r6, [sp, #ROWS]
    lsr     r5, r3, #11
    mla     r4, r5, r0, r4
    mla     r6, r5, r0, r6
    ubfx    r3, r3, #0, #11
    add     r5, r4, r0
    add     r7, r6, r0
    cmp     r3, #0
    itt     eq
    moveq   r5, r4
    moveq   r7, r6
    rsb     r8, r3, #2048
    mul     r10, r8, r12
    rsb     r8, r10, r8, lsl #11
    mul     r11, r3, r12
    rsb     r9, r11, r3, lsl #11
    mov     r3, r1
    wlstp.32 lr, r0, .Lbilinear_made
    /* One turn: up to four channels. */
.Lbilinear_four:
    vldrb.s32 q0, [r4], #4
    vldrb.s32 q1, [r6], #4
    vmul.i32 q0, q0, r8
    vldrb.s32 q2, [r5], #4
    vmla.s32 q0, q1, r10
    vldrb.s32 q3, [r7], #4
    vmla.s32 q0, q2, r9
    vmla.s32 q0, q3, r11
    vrshr.s32 q0, q0, #22
    vstrb.32 q0, [r3], #4
    letp    lr, .Lbilinear_four
.Lbilinear_made:
    add     r1, r1, r0
    ldr     r3, [sp, #LEFT]
    subs    r3, r3, #1
    str     r3, [sp, #LEFT]
    bgt     .Lbilinear_pixel
    add     sp, sp, #12
    pop     {r4-r11, pc}
    .size   cortado_bilinear_row_s8__mve, . - cortado_bilinear_row_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
