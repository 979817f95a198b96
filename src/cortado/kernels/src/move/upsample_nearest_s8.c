/* SPDX-License-Identifier: Apache-2.0
 *
 * Upsampling by whole factors.
 *
 * Tile: 1 pixel. Scratch: none.
 */
#include "cortado.h"
#include "cortado_copy.h"

void cortado_upsample_nearest_s8(const cortado_upsample_t *L, const int8_t *row, int8_t *out)
{
    for (int32_t x = 0; x < L->in_w; x++) {
        for (int32_t i = 0; i < L->factor_w; i++) {
            cortado_copy(out, row, (size_t)L->channels);
            out += L->channels;
        }
        row += L->channels;
    }
}

void cortado_upsample_nearest_rows_s8(const cortado_upsample_t *L, const int8_t *in, int8_t *out, int32_t rows)
{
    const int32_t in_bytes = L->in_w * L->channels, out_bytes = in_bytes * L->factor_w;
    for (; rows > 0; rows--) {
        cortado_upsample_nearest_s8(L, in, out);
        for (int32_t i = 1; i < L->factor_h; i++) {
            cortado_copy(out + out_bytes, out, (size_t)out_bytes);
            out += out_bytes;
        }
        out += out_bytes;
        in += in_bytes;
    }
}
