/* SPDX-License-Identifier: Apache-2.0
 *
 * Division of 16-bit codes, in float32.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

void cortado_div_s16(const int16_t *a, const int16_t *b, int16_t *out, int32_t n, float factor)
{
    for (int32_t i = 0; i < n; i++) {
        float quotient = b[i] != 0 ? (float)a[i] / (float)b[i] : 0.0f;
        quotient *= factor;
        /* Far outside of 16 bits the result saturates; the limits keep the conversion defined. */
        quotient = quotient > 65536.0f ? 65536.0f : quotient < -65536.0f ? -65536.0f : quotient;
        int32_t v = (int32_t)quotient;
        const float rest = quotient - (float)v; /* exact */
        v += (rest >= 0.5f) - (rest <= -0.5f);
        out[i] = (int16_t)cortado_clamp(v, -32768, 32767);
    }
}
