/* SPDX-License-Identifier: Apache-2.0
 *
 * Euclidean distance between rows of two tensors.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_root.h"

void cortado_distance_s8(const cortado_distance_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t rows)
{
    for (; rows > 0; rows--) {
        uint64_t squares = 0;
        int32_t left;
        for (int32_t i = 0; i < L->length; i++) {
            const int32_t d =
                (*a++ - L->a_zero) * L->a_multiplier - (*b++ - L->b_zero) * L->b_multiplier + L->offset;
            squares += (uint64_t)((int64_t)d * d);
        }
        const uint32_t root = cortado_root(cortado_normalized(squares, &left));
        *out++ = cortado_measure(root, L->out_multiplier, 31 + left / 2 - L->out_shift, L->out_zero);
    }
}
