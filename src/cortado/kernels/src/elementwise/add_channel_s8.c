/* SPDX-License-Identifier: Apache-2.0
 *
 * Addition of one value per channel to every pixel, with factors of at most 1, as operators have them: no shift is to
 * the left, so that the operands have 28 bits and their sum 29.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

/* Channel by channel: the second operand is rescaled once for all pixels, or for each where that order would
 * overwrite what is still to be read. */
void cortado_add_channel_s8(const cortado_add_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n,
                            int32_t channels)
{
    const int32_t span = cortado_channel_span(a, out, n, channels);
    const cortado_factor_t factor = cortado_factor(L->a_multiplier, L->a_shift);
    const cortado_factor_t last = cortado_factor(L->out_multiplier, L->out_shift);
    const int32_t a_zero = L->a_zero, out_zero = L->out_zero, act_min = L->act_min, act_max = L->act_max;
    for (int32_t end = span; end <= n; end += span) {
        for (int32_t c = 0; c < channels; c++) {
            const int32_t right = cortado_requant((b[c] - L->b_zero) * (1 << 20), L->b_multiplier, L->b_shift);
            for (int32_t i = end - span + c; i < end; i += channels) {
                const int32_t v = cortado_scale((a[i] - a_zero) * (1 << 20), factor) + right;
                out[i] = (int8_t)cortado_clamp(cortado_scale(v, last) + out_zero, act_min, act_max);
            }
        }
    }
}
