/* SPDX-License-Identifier: Apache-2.0
 *
 * Addition of two tensors of one shape, with any factors.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

/* Any factors at all. */
static int8_t add_one(const cortado_add_t *L, int32_t a, int32_t b)
{
    const int32_t left = cortado_requant((a - L->a_zero) * (1 << 20), L->a_multiplier, L->a_shift);
    const int32_t right = cortado_requant((b - L->b_zero) * (1 << 20), L->b_multiplier, L->b_shift);
    const int32_t v = cortado_requant(left + right, L->out_multiplier, L->out_shift) + L->out_zero;
    return (int8_t)cortado_clamp(v, L->act_min, L->act_max);
}

/* The factors that operators have: b's is 1/2 exactly, and no shift is to the left. So b becomes (b - b_zero) << 19,
 * and the product of a's difference d, which has 9 bits, needs no long multiply:
 * floor((d * 2^20 * m + 2^30) / 2^31) = d * high * 2^5 + floor((d * low + 2^10) / 2^11) for m = high * 2^16 + low. */
static void add_half(const cortado_add_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
{
    const int32_t high = L->a_multiplier >> 16, low = L->a_multiplier & 0xFFFF, a_zero = L->a_zero, b_zero = L->b_zero;
    const int32_t shift = L->a_shift, half = shift < 0 ? 1 << (-shift - 1) : 0;
    const cortado_factor_t factor = cortado_factor(L->out_multiplier, L->out_shift);
    const int32_t zero = L->out_zero, act_min = L->act_min, act_max = L->act_max;
    for (int32_t i = 0; i < n; i++) {
        const int32_t d = a[i] - a_zero;
        int32_t v = d * high * 32 + ((d * low + (1 << 10)) >> 11);
        v += (v & shift) >> 31; /* ties away from zero, as in cortado_scale */
        v = ((v + half) >> -shift) + (b[i] - b_zero) * (1 << 19);
        out[i] = (int8_t)cortado_clamp(cortado_scale(v, factor) + zero, act_min, act_max);
    }
}

static int is_half(int32_t multiplier, int32_t shift) { return multiplier == 1 << 30 && shift == 0; }

void cortado_add_s8(const cortado_add_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
{
    if (L->a_shift <= 0 && L->b_shift <= 0 && L->out_shift <= 0) {
        if (is_half(L->b_multiplier, L->b_shift) != 0) {
            add_half(L, a, b, out, n);
            return;
        }
        if (is_half(L->a_multiplier, L->a_shift) != 0) {
            cortado_add_t swapped = *L;
            swapped.a_multiplier = L->b_multiplier;
            swapped.a_shift = L->b_shift;
            swapped.a_zero = L->b_zero;
            swapped.b_zero = L->a_zero;
            add_half(&swapped, b, a, out, n);
            return;
        }
    }
    for (int32_t i = 0; i < n; i++) {
        out[i] = add_one(L, a[i], b[i]);
    }
}
