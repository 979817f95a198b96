/* SPDX-License-Identifier: Apache-2.0 */
#include "cortado.h"
#include "cortado_math.h"

void cortado_mul_s8(const cortado_mul_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t v = (a[i] - L->a_zero) * (b[i] - L->b_zero);
        v = cortado_requant(v, L->out_multiplier, L->out_shift) + L->out_zero;
        out[i] = (int8_t)cortado_clamp(v, L->act_min, L->act_max);
    }
}
