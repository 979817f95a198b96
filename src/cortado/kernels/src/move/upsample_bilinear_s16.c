/* SPDX-License-Identifier: Apache-2.0
 *
 * Bilinear resizing of 16-bit codes: the whole tensor at once, or, of a height by a power of two, one output row.
 *
 * Tile: 1 pixel x 1 channel. Scratch: none.
 */
#include "cortado_wide.h"

/* The row at position `down` (in steps of 1/2048) below `top`; with `down` 0 the row `bottom` does not count. */
static void between(const cortado_bilinear_t *L, const int16_t *top, const int16_t *bottom, int32_t down, int16_t *out)
{
    const int32_t channels = L->channels, up = 2048 - down;
    for (int32_t x = 0; x < L->out_w; x++) {
        const int32_t place = L->columns[x], right = place & 2047, at = (place >> 11) * channels;
        const int16_t *a = top + at, *b = bottom + at;
        const int32_t next = right == 0 ? 0 : channels; /* behind the last column there is none */
        for (int32_t c = channels; c > 0; c--, a++, b++) {
            const int32_t here = up * a[0] + down * b[0], there = up * a[next] + down * b[next];
            const int64_t sum = (int64_t)here * (2048 - right) + (int64_t)there * right;
            *out++ = (int16_t)((sum + (1 << 21)) >> 22);
        }
    }
}

void cortado_upsample_bilinear_s16(const cortado_bilinear_t *L, const int8_t *const rows[], int16_t *out, int32_t y)
{
    const int32_t place = L->rows[y], down = place & 2047;
    const int8_t *const *top = rows + ((place >> 11) - (y >> L->shift_h) + 1); /* rows[1] is row y >> shift_h */
    between(L, cortado_wide_row(top[0]), cortado_wide_row(top[down == 0 ? 0 : 1]), down, out);
}

void cortado_upsample_bilinear_all_s16(const cortado_bilinear_t *L, const int16_t *in, int16_t *out)
{
    const int32_t row = L->in_w * L->channels;
    for (int32_t image = L->images; image > 0; image--, in += L->in_h * row) {
        for (int32_t y = 0; y < L->out_h; y++, out += L->out_w * L->channels) {
            const int32_t place = L->rows[y], down = place & 2047;
            const int16_t *top = in + (place >> 11) * row;
            between(L, top, down == 0 ? top : top + row, down, out);
        }
    }
}
