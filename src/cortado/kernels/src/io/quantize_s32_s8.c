/* SPDX-License-Identifier: Apache-2.0
 *
 * Integers as codes.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

void cortado_quantize_s32_s8(const cortado_quantize_int_t *L, const int32_t *in, int8_t *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t v = cortado_requant(cortado_clamp(in[i], L->low, L->high), L->multiplier, L->shift);
        out[i] = (int8_t)cortado_clamp(v + L->zero_point, -128, 127);
    }
}
