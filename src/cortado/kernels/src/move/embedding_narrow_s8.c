/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a constant table of 4-bit codes, one for each id: see cortado_narrow.h.
 *
 * Tile: 1 row of the table. Scratch: none.
 */
#include "cortado_ids.h"
#include "cortado_narrow.h"

/* Two codes of a byte at a time; of an odd number the last has the lower half of one. */
static void unpack(const uint8_t *halves, int32_t factor, int32_t zero, int32_t n, int8_t *out)
{
    for (; n > 0; n -= 2) {
        const int32_t both = *halves++;
        *out++ = (int8_t)(zero + factor * (((both & 15) ^ 8) - 8));
        if (n > 1) {
            *out++ = (int8_t)(zero + factor * (((both >> 4) ^ 8) - 8));
        }
    }
}

void cortado_embedding_narrow_s8(const cortado_embedding_narrow_t *L, const int32_t *ids, int8_t *out)
{
    const int32_t runs = (L->width + L->run - 1) / L->run, bytes = (L->width + 1) >> 1;
    for (int32_t i = 0; i < L->ids; i++, out += L->width) {
        const int32_t row = cortado_id(ids[i], L->count);
        for (int32_t r = 0, first = 0; r < runs; r++, first += L->run) {
            unpack(L->table + row * bytes + (first >> 1), L->factors[row * runs + r], L->zero,
                   cortado_min(L->run, L->width - first), out + first);
        }
    }
}
