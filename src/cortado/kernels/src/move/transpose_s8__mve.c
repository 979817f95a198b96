/* SPDX-License-Identifier: Apache-2.0
 *
 * Permutation, and any other strided read, with vector instructions.
 *
 * Tile: 16 or 8 bytes of a line, or 1 run of bytes. Scratch: none.
 */
#include "cortado.h"

#if defined(__ARM_FEATURE_MVE)
#include "cortado_copy.h"
#include "cortado_planes.h"

void cortado_transpose_s8__mve(const cortado_transpose_t *L, const int8_t *in, int8_t *out)
{
    const cortado_plane_t P = cortado_plane_of(L);
    int32_t index[6] = {0}, offset = L->offset;
    do {
        if (P.copied == 0) {
            cortado_plane_s8__mve(&P, in + offset, out);
        } else {
            for (int32_t line = 0; line < P.lines; line++) {
                cortado_copy(out + line * P.line_out, in + offset + line * P.line_in, (size_t)P.bytes);
            }
        }
        out += P.size;
    } while (cortado_next_plane(L, index, &offset) != 0);
}
#else
typedef int cortado_transpose_needs_mve; /* an empty translation unit is not C */
#endif
