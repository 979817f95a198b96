/* SPDX-License-Identifier: Apache-2.0
 *
 * Division, in float32.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

void cortado_div_s8(const cortado_div_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t top = a[i] - L->a_zero, bottom = b[i] - L->b_zero;
        float quotient = bottom != 0 ? (float)top / (float)bottom : 0.0f;
        quotient *= L->factor;
        /* Far outside int8 the result saturates whatever the zero point; the limits keep the conversion defined. */
        quotient = quotient > 512.0f ? 512.0f : quotient < -512.0f ? -512.0f : quotient;
        int32_t v = (int32_t)quotient;
        const float rest = quotient - (float)v; /* exact */
        v += (rest >= 0.5f) - (rest <= -0.5f);
        out[i] = (int8_t)cortado_clamp(v + L->out_zero, L->act_min, L->act_max);
    }
}
