/* SPDX-License-Identifier: Apache-2.0 */
#include "cortado.h"
#include "cortado_math.h"

void cortado_add_s8(const cortado_add_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t left = cortado_requant((a[i] - L->a_zero) * (1 << 20), L->a_multiplier, L->a_shift);
        int32_t right = cortado_requant((b[i] - L->b_zero) * (1 << 20), L->b_multiplier, L->b_shift);
        int32_t v = cortado_requant(left + right, L->out_multiplier, L->out_shift) + L->out_zero;
        out[i] = (int8_t)cortado_clamp(v, L->act_min, L->act_max);
    }
}
