/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a constant table, one for each id.
 *
 * Tile: 1 row of the table. Scratch: none.
 */
#include "cortado.h"
#include "cortado_copy.h"
#include "cortado_ids.h"

void cortado_embedding_s8(const cortado_embedding_t *L, const int32_t *ids, int8_t *out)
{
    for (int32_t i = 0; i < L->ids; i++) {
        cortado_copy(out, L->table + cortado_id(ids[i], L->count) * L->width, (size_t)L->width);
        out += L->width;
    }
}
