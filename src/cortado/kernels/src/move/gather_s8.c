/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of bytes chosen by an index.
 *
 * Tile: 1 run of bytes. Scratch: none.
 */
#include "cortado.h"
#include "cortado_copy.h"
#include "cortado_math.h"

/* Runs of one byte, which a call of memcpy each would take several times as long. */
static void gather_bytes(const int32_t *index, const int32_t *end, const int8_t *in, int8_t *out)
{
    while (index != end) {
        *out++ = in[*index++];
        CORTADO_STAY_A_LOOP;
    }
}

void cortado_gather_s8(const cortado_gather_t *L, const int8_t *in, int8_t *out, int32_t outer)
{
    for (; outer > 0; outer--) {
        if (L->inner == 1) {
            gather_bytes(L->index, L->index + L->count, in, out);
            out += L->count;
            in += L->in_bytes;
            continue;
        }
        for (int32_t i = 0; i < L->count; i++) {
            cortado_copy(out, in + L->index[i] * L->inner, (size_t)L->inner);
            out += L->inner;
        }
        in += L->in_bytes;
    }
}
