/* SPDX-License-Identifier: Apache-2.0
 *
 * Cosine of the angle between rows of two tensors of 16-bit codes.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_root.h"
#include "cortado_round.h"

/* sqrt(max(squares, least)) * 2^*left, of 31 bits. */
static uint32_t size_of(uint64_t squares, int32_t least, int32_t *left)
{
    const uint32_t root = cortado_root(cortado_normalized(squares < (uint32_t)least ? (uint32_t)least : squares, left));
    *left /= 2;
    return root;
}

void cortado_cosine_similarity_s16(const cortado_cosine_similarity_t *L, const int16_t *a, const int16_t *b,
                                   int16_t *out, int32_t rows)
{
    for (; rows > 0; rows--) {
        int64_t dot = 0;
        uint64_t a_squares = 0, b_squares = 0;
        int32_t a_left, b_left;
        for (int32_t i = 0; i < L->length; i++) {
            const int32_t x = *a++, y = *b++;
            dot += x * y;
            a_squares += (uint32_t)(x * x);
            b_squares += (uint32_t)(y * y);
        }
        const uint32_t a_size = size_of(a_squares, L->a_least, &a_left);
        const uint32_t b_size = size_of(b_squares, L->b_least, &b_left);
        const uint32_t size = (uint32_t)(((uint64_t)a_size * b_size) >> 31);
        /* The product of the sizes is at least the dot product, of 62 bits once both are shifted: 7 of these go, so
         * that the quotient has 24 fractional bits. */
        const int32_t left = a_left + b_left - 7;
        const uint64_t far = (uint64_t)(dot < 0 ? -dot : dot), from = left < 0 ? far >> -left : far << left;
        const int32_t cosine = (int32_t)((from + size / 2) / size);
        *out++ = cortado_code_s16(cortado_rounded(dot < 0 ? -cosine : cosine, L->out_multiplier, L->out_shift));
    }
}
