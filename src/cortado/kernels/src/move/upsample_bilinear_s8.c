/* SPDX-License-Identifier: Apache-2.0
 *
 * Bilinear resizing of the height by a power of two, one output row at a time.
 *
 * Tile: 1 pixel x 1 channel. Scratch: none.
 */
#include "cortado_bilinear.h"

void cortado_upsample_bilinear_s8(const cortado_bilinear_t *L, const int8_t *const rows[], int8_t *out, int32_t y)
{
    const int32_t place = L->rows[y], down = place & 2047;
    const int8_t *const *top = rows + ((place >> 11) - (y >> L->shift_h) + 1); /* rows[1] is row y >> shift_h */
    cortado_bilinear_row(L, top[0], top[down == 0 ? 0 : 1], down, out);
}
