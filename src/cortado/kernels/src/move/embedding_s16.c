/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a constant table of 16-bit codes, one for each id.
 *
 * Tile: 1 row of the table. Scratch: none.
 */
#include "cortado.h"
#include "cortado_copy.h"
#include "cortado_ids.h"

void cortado_embedding_s16(const cortado_embedding_s16_t *L, const int32_t *ids, int16_t *out)
{
    for (int32_t i = 0; i < L->ids; i++) {
        const int16_t *row = L->table + cortado_id(ids[i], L->count) * L->width;
        cortado_copy(out, row, (size_t)L->width * sizeof *row);
        out += L->width;
    }
}
