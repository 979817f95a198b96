/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax over what a constant mask leaves of every row.
 *
 * Tile: that of the function it is given. Scratch: none.
 */
#include "cortado.h"

static int32_t is_masked(const uint8_t *mask, int32_t i) { return mask[i >> 3] >> (i & 7) & 1; }

void cortado_masked_softmax_s8(const cortado_masked_softmax_t *L, const int8_t *in, int8_t *out, int32_t rows,
                               void (*softmax)(const cortado_softmax_t *, const int8_t *, int8_t *, int32_t, int32_t))
{
    const cortado_softmax_t factors = {0, 0, L->diff_min, L->exp_table}; /* all that a table's softmax reads */
    const int32_t n = L->length, stride = (n + 7) >> 3;
    const uint8_t *mask = L->mask, *const end = mask + L->mask_rows * stride;
    for (; rows > 0; rows--, in += n, out += n) {
        int32_t left = 0;
        for (int32_t i = 0; i < n; i++) {
            if (!is_masked(mask, i)) {
                out[left++] = in[i];
            }
        }
        softmax(&factors, out, out, 1, left);
        /* From the end: a value moves to its place or further back, never over one that has not moved yet. */
        for (int32_t i = n - 1; i >= 0; i--) {
            out[i] = is_masked(mask, i) ? -128 : out[--left];
        }
        mask += stride;
        mask = mask == end ? L->mask : mask;
    }
}
