/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic of two operands in float32.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado_float.h"

static int holds(float a, float b, int32_t accepts)
{
    if (accepts == (CORTADO_BELOW | CORTADO_ABOVE)) {
        return a != b;
    }
    return ((accepts & CORTADO_BELOW) != 0 && a < b) || ((accepts & CORTADO_EQUAL) != 0 && a == b) ||
           ((accepts & CORTADO_ABOVE) != 0 && a > b);
}

static float calculated(float a, float b, int32_t how)
{
    switch (how) {
    case CORTADO_SUM:
        return a + b;
    case CORTADO_DIFFERENCE:
        return a - b;
    case CORTADO_PRODUCT:
        return a * b;
    case CORTADO_QUOTIENT:
        return a / b;
    case CORTADO_SMALLER:
        return b < a || b != b ? b : a;
    case CORTADO_LARGER:
        return b > a || b != b ? b : a;
    default:
        return holds(a, b, how - CORTADO_COMPARISON) ? 1.0f : 0.0f;
    }
}

void cortado_calculate_f32(const cortado_calculate_f32_t *L, const float *a, const float *b, float *out, int32_t n)
{
    int32_t at_a = 0, at_b = 0;
    a = a == NULL ? &L->number : a;
    b = b == NULL ? &L->number : b;
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_bounded(calculated(a[at_a], b[at_b], L->how), L->act_min, L->act_max);
        at_a = at_a + 1 == L->a_period ? 0 : at_a + 1;
        at_b = at_b + 1 == L->b_period ? 0 : at_b + 1;
    }
}

void cortado_calculate_strided_f32(const cortado_calculate_strided_t *L, const float *a, const float *b, float *out)
{
    int32_t at[6] = {0, 0, 0, 0, 0, 0};
    for (int32_t more = 1; more != 0;) {
        *out++ = cortado_bounded(calculated(*a, *b, L->how), L->act_min, L->act_max);
        more = 0;
        for (int32_t dim = L->rank - 1; dim >= 0 && more == 0; dim--) {
            a += L->a_stride[dim];
            b += L->b_stride[dim];
            more = ++at[dim] < L->shape[dim];
            if (more == 0) {
                a -= L->a_stride[dim] * L->shape[dim];
                b -= L->b_stride[dim] * L->shape[dim];
                at[dim] = 0;
            }
        }
    }
}
