/* SPDX-License-Identifier: Apache-2.0
 *
 * Cosine of the angle between rows of two tensors.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_root.h"

void cortado_cosine_similarity_s8(const cortado_cosine_similarity_t *L, const int8_t *a, const int8_t *b, int8_t *out,
                                  int32_t rows)
{
    for (; rows > 0; rows--) {
        int32_t dot = 0, a_squares = 0, b_squares = 0, left;
        for (int32_t i = 0; i < L->length; i++) {
            const int32_t x = *a++ - L->a_zero, y = *b++ - L->b_zero;
            dot += x * y;
            a_squares += x * x;
            b_squares += y * y;
        }
        const uint64_t product =
            (uint64_t)(uint32_t)cortado_max(a_squares, L->a_least) * (uint32_t)cortado_max(b_squares, L->b_least);
        const uint32_t size = cortado_root(cortado_normalized(product, &left));
        /* The dot product is no larger than the root, of 31 bits once both are shifted. */
        const uint64_t far = (uint64_t)(uint32_t)(dot < 0 ? -dot : dot) << (left / 2 + 24);
        const int32_t cosine = (int32_t)((far + size / 2) / size);
        const int32_t v = cortado_requant(dot < 0 ? -cosine : cosine, L->out_multiplier, L->out_shift) + L->out_zero;
        *out++ = (int8_t)cortado_clamp(v, -128, 127);
    }
}
