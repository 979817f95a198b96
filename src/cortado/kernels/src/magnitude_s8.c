/* SPDX-License-Identifier: Apache-2.0
 *
 * Square root of the sum of two squares, element by element.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_root.h"

void cortado_magnitude_s8(const cortado_magnitude_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
{
    const uint64_t start = (uint64_t)L->start << L->start_shift;
    for (; n > 0; n--) {
        const int32_t x = (*a++ - L->a_zero) * L->a_multiplier;
        const int32_t y = (*b++ - L->b_zero) * L->b_multiplier;
        int32_t left;
        const uint64_t squares = (uint64_t)((int64_t)x * x) + (uint64_t)((int64_t)y * y) + start;
        const uint32_t root = cortado_root(cortado_normalized(squares, &left));
        *out++ = cortado_measure(root, L->out_multiplier, 31 + left / 2 - L->out_shift, L->out_zero);
    }
}
