/* SPDX-License-Identifier: Apache-2.0
 *
 * Bilinear resizing to any size, the whole tensor at once.
 *
 * Tile: 1 row. Scratch: none.
 */
#include "cortado_bilinear.h"

void cortado_upsample_bilinear_all_s8(const cortado_bilinear_t *L, const int8_t *in, int8_t *out)
{
    cortado_bilinear_all(L, in, out, cortado_bilinear_row);
}
