/* SPDX-License-Identifier: Apache-2.0
 *
 * Variance or standard deviation of rows of 16-bit codes.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_measure_s16.h"

void cortado_variance_s16(const cortado_variance_t *L, const int16_t *in, int16_t *out, int32_t rows)
{
    const int32_t n = L->length;
    for (; rows > 0; rows--) {
        int32_t sum = 0, left; /* of at most 2^16 codes */
        uint64_t squares = 0;
        for (int32_t i = 0; i < n; i++) {
            const int32_t v = *in++;
            sum += v;
            squares += (uint32_t)(v * v);
        }
        const uint64_t wide = cortado_normalized((uint64_t)n * squares - (uint64_t)((int64_t)sum * sum), &left);
        const uint32_t value = L->root ? cortado_root(wide) : (uint32_t)(wide >> 31);
        const int32_t right = (L->root ? 31 + left / 2 : left) - L->out_shift;
        *out++ = cortado_measure_s16(value, L->out_multiplier, right);
    }
}
