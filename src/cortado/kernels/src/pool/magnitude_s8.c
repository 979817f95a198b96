/* SPDX-License-Identifier: Apache-2.0
 *
 * Euclidean norms of rows, of two tensors side by side, and of differences.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_root.h"

/* At most 2^16 squares of up to 255: they fit 32 bits. */
static inline uint64_t sum_of_squares(const int8_t *in, int32_t length, int32_t zero, int32_t multiplier)
{
    uint32_t sum = 0;
    for (int32_t i = 0; i < length; i++) {
        const int32_t v = in[i] - zero;
        sum += (uint32_t)(v * v);
    }
    return (uint64_t)sum * (uint32_t)(multiplier * multiplier);
}

static inline int8_t root_of(const cortado_magnitude_t *L, uint64_t squares)
{
    int32_t left;
    const uint32_t root = cortado_root(cortado_normalized(squares, &left));
    return cortado_measure(root, L->out_multiplier, 31 + left / 2 - L->out_shift, L->out_zero);
}

void cortado_magnitude_s8(const cortado_magnitude_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
{
    const uint64_t start = (uint64_t)L->start << L->start_shift;
    for (; n > 0; n--) {
        uint64_t squares = start + sum_of_squares(a, L->length, L->a_zero, L->a_multiplier);
        a += L->length;
        if (b != NULL) {
            squares += sum_of_squares(b, L->length, L->b_zero, L->b_multiplier);
            b += L->length;
        }
        *out++ = root_of(L, squares);
    }
}

void cortado_distance_s8(const cortado_magnitude_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t rows)
{
    for (; rows > 0; rows--) {
        uint64_t squares = 0;
        for (int32_t i = 0; i < L->length; i++) {
            const int32_t d =
                (*a++ - L->a_zero) * L->a_multiplier - (*b++ - L->b_zero) * L->b_multiplier + L->offset;
            squares += (uint64_t)((int64_t)d * d);
        }
        *out++ = root_of(L, squares);
    }
}
