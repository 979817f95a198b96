/* SPDX-License-Identifier: Apache-2.0
 *
 * Integers: sums, products, quotients, remainders, the smaller and the larger, bits and shifts.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

static uint32_t magnitude(uint32_t v)
{
    return v >> 31 != 0 ? 0u - v : v;
}

/* Towards minus infinity, as Python does it; 0 where the divisor is. */
static uint32_t floor_divide(uint32_t a, uint32_t b, int32_t wants_rest)
{
    uint32_t rest = 0;
    if (b == 0) {
        return 0;
    }
    uint32_t quotient = cortado_quotient(magnitude(a), magnitude(b), 32, &rest);
    if (a >> 31 != b >> 31) {
        quotient = 0u - quotient - (rest != 0);
    }
    return wants_rest != 0 ? a - quotient * b : quotient;
}

/* Towards minus infinity: ones come in behind a sign. */
static uint32_t shifted_right(uint32_t a, uint32_t by)
{
    uint32_t ones = a >> 31 != 0 ? 0xFFFFFFFFu : 0u;
    return by > 31u ? ones : (a >> by) | (ones & ~(0xFFFFFFFFu >> by));
}

static uint32_t bits(uint32_t a, uint32_t b, int32_t how)
{
    switch (how) {
    case CORTADO_AND:
        return a & b;
    case CORTADO_OR:
        return a | b;
    case CORTADO_XOR:
        return a ^ b;
    case CORTADO_LEFT:
        return b > 31u ? 0u : a << b;
    default:
        return shifted_right(a, b);
    }
}

static uint32_t calculated(uint32_t a, uint32_t b, int32_t how)
{
    switch (how) {
    case CORTADO_SUM:
        return a + b;
    case CORTADO_DIFFERENCE:
        return a - b;
    case CORTADO_PRODUCT:
        return a * b;
    case CORTADO_QUOTIENT:
        return floor_divide(a, b, 0);
    case CORTADO_REMAINDER:
        return floor_divide(a, b, 1);
    case CORTADO_SMALLER:
        return (int32_t)a < (int32_t)b ? a : b;
    case CORTADO_LARGER:
        return (int32_t)a > (int32_t)b ? a : b;
    default:
        return bits(a, b, how);
    }
}

void cortado_calculate_s32(const int32_t *a, const int32_t *b, int32_t *out, int32_t n, int32_t a_step, int32_t b_step,
                           int32_t how)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = (int32_t)calculated((uint32_t)a[i * a_step], (uint32_t)b[i * b_step], how);
    }
}
