/* SPDX-License-Identifier: Apache-2.0
 *
 * Codes in another scale, and of another element: 8 or 16 bits on either side.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

void cortado_requantize(const cortado_requantize_t *L, const void *in, void *out, int32_t n)
{
    const cortado_factor_t factor = cortado_factor(L->multiplier, L->shift);
    const int8_t *from8 = (const int8_t *)in;
    const int16_t *from16 = (const int16_t *)in;
    int8_t *to8 = (int8_t *)out;
    int16_t *to16 = (int16_t *)out;
    for (int32_t i = 0; i < n; i++) {
        const int32_t x = L->in_bytes == 1 ? from8[i] : from16[i];
        const int32_t v = cortado_scale(cortado_shl(x - L->in_zero, L->up), factor) + L->out_zero;
        const int32_t code = cortado_clamp(v, L->act_min, L->act_max);
        if (L->out_bytes == 1) {
            to8[i] = (int8_t)code;
        } else {
            to16[i] = (int16_t)code;
        }
    }
}
