/* SPDX-License-Identifier: Apache-2.0
 *
 * Variance or standard deviation of rows.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_root.h"

void cortado_variance_s8(const cortado_variance_t *L, const int8_t *in, int8_t *out, int32_t rows)
{
    const int32_t n = L->length;
    for (; rows > 0; rows--) {
        int32_t sum = 0, left;
        uint64_t squares = 0;
        for (int32_t i = 0; i < n;) {
            /* 2^16 squares of bytes fit 32 bits. */
            const int32_t end = cortado_min(n, i + (1 << 16));
            uint32_t part = 0;
            for (; i < end; i++) {
                const int32_t v = *in++;
                sum += v;
                part += (uint32_t)(v * v);
            }
            squares += part;
        }
        const uint64_t wide = cortado_normalized((uint64_t)n * squares - (uint64_t)((int64_t)sum * sum), &left);
        const uint32_t value = L->root ? cortado_root(wide) : (uint32_t)(wide >> 31);
        const int32_t right = (L->root ? 31 + left / 2 : left) - L->out_shift;
        *out++ = cortado_measure(value, L->out_multiplier, right, L->out_zero);
    }
}
