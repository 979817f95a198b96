/* SPDX-License-Identifier: Apache-2.0
 *
 * Bilinear resizing: the loops over rows, which kernels share, and one row in portable C. Internal.
 */
#ifndef CORTADO_BILINEAR_H
#define CORTADO_BILINEAR_H

#include "cortado.h"

/* The row at position `down` (in steps of 1/2048) below `top`; with `down` 0 the row `bottom` does not count. */
typedef void (*cortado_bilinear_row_t)(const cortado_bilinear_t *L, const int8_t *top, const int8_t *bottom,
                                       int32_t down, int8_t *out);

static inline void cortado_bilinear_row(const cortado_bilinear_t *L, const int8_t *top, const int8_t *bottom,
                                        int32_t down, int8_t *out)
{
    const int32_t channels = L->channels;
    for (int32_t x = 0; x < L->out_w; x++) {
        const int32_t place = L->columns[x], right = place & 2047, at = (place >> 11) * channels;
        const int8_t *a = top + at, *b = bottom + at;
        const int32_t next = right == 0 ? 0 : channels; /* behind the last column there is none */
        const int32_t wa = (2048 - down) * (2048 - right), wa_next = (2048 - down) * right;
        const int32_t wb = down * (2048 - right), wb_next = down * right;
        for (int32_t c = channels; c > 0; c--, a++, b++) {
            const int32_t sum = wa * a[0] + wa_next * a[next] + wb * b[0] + wb_next * b[next];
            *out++ = (int8_t)((sum + (1 << 21)) >> 22);
        }
    }
}

/* One output row of a height resized by a power of two; rows[1] is row y >> shift_h. */
static inline void cortado_bilinear_one(const cortado_bilinear_t *L, const int8_t *const rows[], int8_t *out, int32_t y,
                                        cortado_bilinear_row_t row)
{
    const int32_t place = L->rows[y], down = place & 2047;
    const int8_t *const *top = rows + ((place >> 11) - (y >> L->shift_h) + 1);
    row(L, top[0], top[down == 0 ? 0 : 1], down, out);
}

static inline void cortado_bilinear_all(const cortado_bilinear_t *L, const int8_t *in, int8_t *out,
                                        cortado_bilinear_row_t row)
{
    const int32_t length = L->in_w * L->channels;
    for (int32_t image = L->images; image > 0; image--, in += L->in_h * length) {
        for (int32_t y = 0; y < L->out_h; y++, out += L->out_w * L->channels) {
            const int32_t place = L->rows[y], down = place & 2047;
            const int8_t *top = in + (place >> 11) * length;
            row(L, top, down == 0 ? top : top + length, down, out);
        }
    }
}

#endif /* CORTADO_BILINEAR_H */
