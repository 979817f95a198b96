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

/* A span over which each operand is one number, or goes from element to element. */
typedef struct {
    const float *a, *b;
    int32_t a_step, b_step;
} operands_t;

#define EACH(expression)                                                       \
    do {                                                                       \
        for (const float *const end = out + n; out < end; out++) {             \
            const float x = *a, y = *b;                                        \
            *out = cortado_bounded(expression, low, high);                     \
            a += S.a_step;                                                     \
            b += S.b_step;                                                     \
        }                                                                      \
    } while (0)

/* One loop for each operation that networks are full of; all others choose for each number. */
static void calculate(const cortado_calculate_f32_t *L, const operands_t S, float *out, int32_t n)
{
    const float low = L->act_min, high = L->act_max;
    const float *a = S.a, *b = S.b;
    switch (L->how) {
    case CORTADO_SUM:
        EACH(x + y);
        break;
    case CORTADO_DIFFERENCE:
        EACH(x - y);
        break;
    case CORTADO_PRODUCT:
        EACH(x * y);
        break;
    default:
        EACH(calculated(x, y, L->how));
        break;
    }
}

void cortado_calculate_f32(const cortado_calculate_f32_t *L, const float *a, const float *b, float *out, int32_t n)
{
    int32_t at_a = 0, at_b = 0;
    a = a == NULL ? &L->number : a;
    b = b == NULL ? &L->number : b;
    const int32_t a_step = L->a_period != 1, b_step = L->b_period != 1;
    while (n > 0) {
        const int32_t left_a = a_step != 0 ? L->a_period - at_a : n, left_b = b_step != 0 ? L->b_period - at_b : n;
        const int32_t span = cortado_min(n, cortado_min(left_a, left_b));
        const operands_t S = {a + at_a, b + at_b, a_step, b_step};
        calculate(L, S, out, span);
        at_a = span == left_a ? 0 : at_a + span * a_step;
        at_b = span == left_b ? 0 : at_b + span * b_step;
        out += span;
        n -= span;
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
