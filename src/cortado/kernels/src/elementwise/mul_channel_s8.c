/* SPDX-License-Identifier: Apache-2.0
 *
 * Multiplication of every pixel by one value per channel.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado_mul.h"

void cortado_mul_channel_s8(const cortado_mul_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n,
                            int32_t channels)
{
    const cortado_factor_t factor = cortado_mul_factor(L);
    const int32_t a_zero = L->a_zero, zero = L->out_zero, low = L->act_min, high = L->act_max;
    const int32_t span = cortado_channel_span(a, out, n, channels);
    for (int32_t end = span; end <= n; end += span) {
        for (int32_t c = 0; c < channels; c++) {
            const int32_t other = b[c] - L->b_zero;
            for (int32_t i = end - span + c; i < end; i += channels) {
                const int32_t v = cortado_scale((a[i] - a_zero) * other, factor) + zero;
                out[i] = (int8_t)cortado_clamp(v, low, high);
            }
        }
    }
}
