/* SPDX-License-Identifier: Apache-2.0
 *
 * Which channels of each pixel hold its largest codes, or its smallest, and these codes, with vector instructions.
 *
 *   void cortado_topk_s8__mve(const int8_t *in, int32_t *out, int32_t pixels, int32_t channels, int32_t count,
 *                             int32_t largest, int8_t *values)
 *
 * Tile: 4 channels. Scratch: none.
 *
 * Each channel has a key: its code, or for the smallest -1 minus that, in the upper byte, and 2^24 - 2 minus its number
 * below. All keys are different, and the next channel of the result has the largest one below that of the last.
 *
 *   r0 in   r1 out   r2 pixels left   r3 channels   r4 channels of this pixel   r5 key of the last   r6 largest key
 *   r7 2^24, or minus that   r8 results left   r9 values   r10 key's lower part of channel 0   r11 four   r12 count
 *   lr turns left
 *   q0 codes, then keys   q1 lower parts   q2 those of the first four channels
 */
#include "cortado_asm.h"

#if defined(__ARM_FEATURE_MVE)

#define COUNT 40 /* behind the saved registers: count, largest, values */

    function cortado_topk_s8__mve
    push    {r3-r11, lr}
    ldrd    r12, r8, [sp, #COUNT]
    ldr     r9, [sp, #COUNT + 8]
    mov     r7, #0x1000000
    sub     r10, r7, #2
    cmp     r8, #0
    itt     eq
    rsbeq   r7, r7, #0
    addeq   r10, r10, r7
    mov     r6, #0
    vddup.u32 q2, r6, #1
    vadd.i32 q2, q2, r10
    mov     r11, #4
    cmp     r2, #0
    ble     .Ltopk_return
    /* One turn: one pixel. */
.Ltopk_pixel:
    mvn     r5, #0x80000000
    movs    r8, r12
    ble     .Ltopk_pixel_made
    /* One turn: one result. */
.Ltopk_next:
    mov     r4, r0
    mov     r6, #0x80000000
    vmov    q1, q2
    wlstp.32 lr, r3, .Ltopk_found
    /* One turn: up to four channels. */
.Ltopk_four:
    vldrb.s32 q0, [r4], #4
    vmul.i32 q0, q0, r7
    vadd.i32 q0, q0, q1
    vsub.i32 q1, q1, r11
    vpt.s32 lt, q0, r5
    vmaxvt.s32 r6, q0
    letp    lr, .Ltopk_four
.Ltopk_found:
    mov     r5, r6
    sub     r6, r10, r6
    bfc     r6, #24, #8
    cbz     r1, .Ltopk_no_number
    str     r6, [r1], #4
.Ltopk_no_number:
    cmp     r9, #0
    beq     .Ltopk_no_value
    ldrb    r6, [r0, r6]
    strb    r6, [r9], #1
.Ltopk_no_value:
    subs    r8, r8, #1
    bgt     .Ltopk_next
.Ltopk_pixel_made:
    add     r0, r0, r3
    subs    r2, r2, #1
    bgt     .Ltopk_pixel
.Ltopk_return:
    pop     {r3-r11, pc}
    .size   cortado_topk_s8__mve, . - cortado_topk_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
