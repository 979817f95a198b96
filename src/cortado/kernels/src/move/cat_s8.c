/* SPDX-License-Identifier: Apache-2.0
 *
 * Concatenation.
 *
 * Tile: 1 run of bytes. Scratch: none.
 */
#include "cortado.h"
#include "cortado_copy.h"

void cortado_cat_s8(const cortado_cat_t *L, const int8_t *const in[], int8_t *out, int32_t outer)
{
    for (int32_t o = 0; o < outer; o++) {
        for (int32_t i = 0; i < L->count; i++) {
            cortado_copy(out, in[i] + o * L->width[i], (size_t)L->width[i]);
            out += L->width[i];
        }
    }
}
