/* SPDX-License-Identifier: Apache-2.0 */
#include "cortado.h"
#include "cortado_math.h"

void cortado_mul_channel_s8(const cortado_mul_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n,
                            int32_t channels)
{
    const int32_t span = cortado_channel_span(a, out, n, channels);
    for (int32_t end = span; end <= n; end += span) {
        for (int32_t c = 0; c < channels; c++) {
            const int32_t factor = b[c] - L->b_zero;
            for (int32_t i = end - span + c; i < end; i += channels) {
                int32_t v = (a[i] - L->a_zero) * factor;
                v = cortado_requant(v, L->out_multiplier, L->out_shift) + L->out_zero;
                out[i] = (int8_t)cortado_clamp(v, L->act_min, L->act_max);
            }
        }
    }
}
