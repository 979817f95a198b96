/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of bytes chosen by an index.
 *
 * Tile: 1 run of bytes. Scratch: none.
 */
#include "cortado.h"
#include "cortado_copy.h"

void cortado_gather_s8(const cortado_gather_t *L, const int8_t *in, int8_t *out, int32_t outer)
{
    for (; outer > 0; outer--) {
        for (int32_t i = 0; i < L->count; i++) {
            cortado_copy(out, in + L->index[i] * L->inner, (size_t)L->inner);
            out += L->inner;
        }
        in += L->in_bytes;
    }
}
