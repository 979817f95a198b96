/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of bytes to places as far apart as they may be, with vector instructions: cortado_planes.h.
 *
 *   void cortado_plane_s8__mve(const cortado_plane_t *P, const int8_t *in, int8_t *out)
 *
 * Tile: 16 bytes where the offset of the last fits 8 bits, 8 where it fits 16, else 4. Scratch: none.
 *
 *   r0 in of this turn   r1 in   r2 out   r3 out of this turn   r4 lines left, r5, r6 how far the next is
 *   r7 bytes of a line   r8, r9 how far those of the next turn are   r12 free   lr turns left
 *   q0 bytes   q1, q2 where they are and where they go
 */
#include "cortado_asm.h"
#include "cortado_planes.h"

#if defined(__ARM_FEATURE_MVE)

#define NEAR 17  /* 15 of them fit 8 bits */
#define FAR 9362 /* 7 of them fit 16 bits */

/* All lines, so many bytes a turn that offsets of their width reach; \turns is how far to shift for a whole turn. */
    .macro lines width, turns
    vidup.u\width q0, r0, #1
    vmul.i\width q1, q0, r8
    vmul.i\width q2, q0, r9
    lsl     r8, r8, #\turns
    lsl     r9, r9, #\turns
    /* One turn: one line. */
.Lplane_line_\@:
    mov     r0, r1
    mov     r3, r2
    wlstp.\width lr, r7, .Lplane_made_\@
    /* One turn: the bytes of a vector, or those left. */
.Lplane_bytes_\@:
    vldrb.u\width q0, [r0, q1]
    add     r0, r0, r8
    vstrb.\width q0, [r3, q2]
    add     r3, r3, r9
    letp    lr, .Lplane_bytes_\@
.Lplane_made_\@:
    add     r1, r1, r5
    add     r2, r2, r6
    subs    r4, r4, #1
    bgt     .Lplane_line_\@
    pop     {r4-r9, pc}
    .endm

    function cortado_plane_s8__mve
    push    {r4-r9, lr}
    ldm     r0, {r4-r9} /* from CORTADO_PLANE_LINES, which is 0, to byte_out */
    mov     r0, #0
    cmp     r8, #NEAR
    it      ls
    cmpls   r9, #NEAR
    bhi     .Lplane_far
    lines   8, 4
.Lplane_far:
    movw    r12, #FAR
    cmp     r8, r12
    it      ls
    cmpls   r9, r12
    bhi     .Lplane_any
    lines   16, 3
    /* Backwards, or further: offsets are modulo 2^32. */
.Lplane_any:
    lines   32, 2
    .size   cortado_plane_s8__mve, . - cortado_plane_s8__mve
#endif
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
