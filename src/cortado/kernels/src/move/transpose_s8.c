/* SPDX-License-Identifier: Apache-2.0
 *
 * Permutation, and any other strided read.
 *
 * Tile: 4 bytes of a line, or 1 run of bytes. Scratch: none.
 */
#include "cortado.h"
#include "cortado_copy.h"
#include "cortado_math.h"
#include "cortado_planes.h"

/* One line. Where accesses may be unaligned, four bytes that lie together are one. */
static void move_line(const int8_t *in, int32_t from, int8_t *out, int32_t to, int32_t n)
{
#if !CORTADO_SMALL_CORE && !defined(CORTADO_ALIGNED_ONLY)
    if (from == 1) {
        for (; n >= 4; n -= 4, in += 4, out += 4 * to) {
            const int32_t v = cortado_load4(in);
            out[0] = (int8_t)v;
            out[to] = (int8_t)(v >> 8);
            out[2 * to] = (int8_t)(v >> 16);
            out[3 * to] = (int8_t)(v >> 24);
        }
    } else if (to == 1) {
        for (; n >= 4; n -= 4, in += 4 * from, out += 4) {
            const uint32_t low = (uint32_t)(uint8_t)in[0] | (uint32_t)(uint8_t)in[from] << 8;
            const uint32_t high = (uint32_t)(uint8_t)in[2 * from] | (uint32_t)(uint8_t)in[3 * from] << 8;
            cortado_store4(out, (int32_t)(low | high << 16));
        }
    }
#endif
    for (; n > 0; n--, in += from, out += to) {
        *out = *in;
    }
}

void cortado_transpose_s8(const cortado_transpose_t *L, const int8_t *in, int8_t *out)
{
    const cortado_plane_t P = cortado_plane_of(L);
    int32_t index[6] = {0}, offset = L->offset;
    do {
        const int8_t *from = in + offset;
        int8_t *to = out;
        for (int32_t line = P.lines; line > 0; line--, from += P.line_in, to += P.line_out) {
            if (P.copied == 0) {
                move_line(from, P.byte_in, to, P.byte_out, P.bytes);
            } else {
                cortado_copy(to, from, (size_t)P.bytes);
            }
        }
        out += P.size;
    } while (cortado_next_plane(L, index, &offset) != 0);
}
