/* SPDX-License-Identifier: Apache-2.0
 *
 * Addition of one value per channel to every pixel, with any factors at all.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

/* Channel by channel: the second operand is rescaled once for all pixels, or for each where that order would
 * overwrite what is still to be read. */
void cortado_add_channel_any_s8(const cortado_add_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n,
                                int32_t channels)
{
    const int32_t span = cortado_channel_span(a, out, n, channels);
    for (int32_t end = span; end <= n; end += span) {
        for (int32_t c = 0; c < channels; c++) {
            const int32_t right = cortado_requant((b[c] - L->b_zero) * (1 << 20), L->b_multiplier, L->b_shift);
            for (int32_t i = end - span + c; i < end; i += channels) {
                const int32_t left = cortado_requant((a[i] - L->a_zero) * (1 << 20), L->a_multiplier, L->a_shift);
                const int32_t v = cortado_requant(left + right, L->out_multiplier, L->out_shift) + L->out_zero;
                out[i] = (int8_t)cortado_clamp(v, L->act_min, L->act_max);
            }
        }
    }
}
