/* SPDX-License-Identifier: Apache-2.0
 *
 * Bilinear resizing to any size, the whole tensor at once.
 *
 * Tile: 1 row. Scratch: none.
 */
#include "cortado_bilinear.h"

void cortado_upsample_bilinear_all_s8(const cortado_bilinear_t *L, const int8_t *in, int8_t *out)
{
    const int32_t row = L->in_w * L->channels;
    for (int32_t image = L->images; image > 0; image--, in += L->in_h * row) {
        for (int32_t y = 0; y < L->out_h; y++, out += L->out_w * L->channels) {
            const int32_t place = L->rows[y], down = place & 2047;
            const int8_t *top = in + (place >> 11) * row;
            cortado_bilinear_row(L, top, down == 0 ? top : top + row, down, out);
        }
    }
}
