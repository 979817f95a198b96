/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums and means of rows of a constant table.
 *
 * Tile: 16 columns of the table. Scratch: none.
 */
#include "cortado.h"
#include "cortado_ids.h"

#define COLUMNS 16

/* The sums of a few columns over the ids that are not padding; returns how many these are. */
static int32_t add_rows(const cortado_embedding_bag_t *L, const int32_t *ids, const int8_t *table, int32_t columns,
                        int32_t sums[COLUMNS])
{
    int32_t kept = 0;
    for (int32_t c = 0; c < columns; c++) {
        sums[c] = 0;
    }
    for (int32_t i = 0; i < L->ids; i++) {
        if (ids[i] == L->padding) {
            continue;
        }
        const int8_t *row = table + cortado_id(ids[i], L->count) * L->width;
        for (int32_t c = 0; c < columns; c++) {
            sums[c] += row[c] - L->table_zero;
        }
        kept++;
    }
    return kept;
}

void cortado_embedding_bag_s8(const cortado_embedding_bag_t *L, const int32_t *ids, int8_t *out)
{
    int32_t sums[COLUMNS];
    for (int32_t bag = 0; bag < L->bags; bag++, ids += L->ids) {
        for (int32_t first = 0; first < L->width; first += COLUMNS) {
            const int32_t columns = cortado_min(COLUMNS, L->width - first);
            const int32_t kept = add_rows(L, ids, L->table + first, columns, sums);
            const int32_t k = L->factors > 1 ? kept : 0;
            for (int32_t c = 0; c < columns; c++) {
                const int32_t v = cortado_requant(sums[c], L->multiplier[k], L->shift[k]) + L->out_zero;
                *out++ = (int8_t)cortado_clamp(v, -128, 127);
            }
        }
    }
}
