/* SPDX-License-Identifier: Apache-2.0
 *
 * Concatenation of inputs of which some are looked up in a table on the way.
 *
 * Tile: 1 run of bytes. Scratch: none.
 */
#include "cortado.h"
#include "cortado_copy.h"

void cortado_cat_tables_s8(const cortado_cat_tables_t *L, const int8_t *const in[], int8_t *out, int32_t outer,
                           cortado_lookup_t lookup)
{
    const int8_t *const table[4] = {L->lut0, L->lut1, L->lut2, L->lut3};
    for (int32_t o = 0; o < outer; o++) {
        for (int32_t i = 0; i < L->count; i++) {
            const int8_t *run = in[i] + o * L->width[i];
            if (table[i] != NULL) {
                lookup(table[i], run, out, L->width[i]);
            } else {
                cortado_copy(out, run, (size_t)L->width[i]);
            }
            out += L->width[i];
        }
    }
}
