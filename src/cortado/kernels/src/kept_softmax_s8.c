/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax over what a computed mask keeps of every row.
 *
 * Tile: that of the function it is given. Scratch: none.
 */
#include "cortado.h"

void cortado_kept_softmax_s8(const cortado_kept_softmax_t *L, const int8_t *in, const int8_t *kept, int8_t *out,
                             void (*softmax)(const cortado_softmax_t *, const int8_t *, int8_t *, int32_t, int32_t))
{
    const cortado_softmax_t factors = {0, 0, L->diff_min, L->exp_table}; /* all that a table's softmax reads */
    const int32_t n = L->length;
    const int8_t *row = kept, *const end = kept + L->kept_rows * n;
    for (int32_t r = L->rows; r > 0; r--, in += n, out += n) {
        int32_t left = 0;
        for (int32_t i = 0; i < n; i++) {
            if (row[i] != 0) {
                out[left++] = in[i];
            }
        }
        const int8_t hidden = (int8_t)(left > 0 ? -128 : L->nothing);
        if (left > 0) {
            softmax(&factors, out, out, 1, left);
        }
        /* From the end: a value moves to its place or further back, never over one that has not moved yet. */
        for (int32_t i = n - 1; i >= 0; i--) {
            out[i] = row[i] != 0 ? out[--left] : hidden;
        }
        row += n;
        row = row == end ? kept : row;
    }
}
