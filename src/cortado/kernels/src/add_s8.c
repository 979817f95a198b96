/* SPDX-License-Identifier: Apache-2.0 */
#include "cortado.h"
#include "cortado_math.h"

/* One operand's factor with its multiplier in two halves of 16 bits (the upper one signed). */
typedef struct {
    int32_t zero, high, low, shift, right, half;
} operand_t;

static operand_t operand(int32_t zero, int32_t multiplier, int32_t shift)
{
    const int32_t half = shift < 0 ? 1 << (-shift - 1) : 0;
    const operand_t o = {zero, multiplier >> 16, multiplier & 0xFFFF, shift, -shift, half};
    return o;
}

/* requant((q - zero) << 20) for shift <= 0. The difference d has 9 bits, so the product needs no long multiply:
 * floor((d * 2^20 * m + 2^30) / 2^31) = d * high * 2^5 + floor((d * low + 2^10) / 2^11). */
static inline int32_t rescale(const operand_t *o, int32_t q)
{
    const int32_t d = q - o->zero;
    int32_t v = d * o->high * 32 + ((d * o->low + (1 << 10)) >> 11);
    v += (v & o->shift) >> 31;
    return (v + o->half) >> o->right;
}

/* Any shifts at all. */
static int8_t add_one(const cortado_add_t *L, int32_t a, int32_t b)
{
    const int32_t left = cortado_requant((a - L->a_zero) * (1 << 20), L->a_multiplier, L->a_shift);
    const int32_t right = cortado_requant((b - L->b_zero) * (1 << 20), L->b_multiplier, L->b_shift);
    const int32_t v = cortado_requant(left + right, L->out_multiplier, L->out_shift) + L->out_zero;
    return (int8_t)cortado_clamp(v, L->act_min, L->act_max);
}

void cortado_add_s8(const cortado_add_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
{
    if (L->a_shift > 0 || L->b_shift > 0 || L->out_shift > 0) {
        for (int32_t i = 0; i < n; i++) {
            out[i] = add_one(L, a[i], b[i]);
        }
        return;
    }
    const operand_t left = operand(L->a_zero, L->a_multiplier, L->a_shift);
    const operand_t right = operand(L->b_zero, L->b_multiplier, L->b_shift);
    const cortado_factor_t factor = cortado_factor(L->out_multiplier, L->out_shift);
    const int32_t zero = L->out_zero, low = L->act_min, high = L->act_max;
    for (int32_t i = 0; i < n; i++) {
        const int32_t v = cortado_scale(rescale(&left, a[i]) + rescale(&right, b[i]), factor) + zero;
        out[i] = (int8_t)cortado_clamp(v, low, high);
    }
}
