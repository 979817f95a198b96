/* SPDX-License-Identifier: Apache-2.0
 *
 * Bilinear resizing of the height by a power of two, one output row at a time.
 *
 * Tile: 1 pixel x 1 channel. Scratch: none.
 */
#include "cortado_bilinear.h"

void cortado_upsample_bilinear_s8(const cortado_bilinear_t *L, const int8_t *const rows[], int8_t *out, int32_t y)
{
    cortado_bilinear_one(L, rows, out, y, cortado_bilinear_row);
}
