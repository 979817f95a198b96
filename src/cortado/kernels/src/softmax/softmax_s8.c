/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax that computes its exponentials.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_softmax.h"

/* exp(v) as Q31 for v <= 0 with 5 integer bits: a polynomial around -1/8 for the part within a quarter, then one
 * factor exp(-2^i / 4) for every bit i above. */
static int32_t exp_negative(int32_t v)
{
    static const int32_t factors[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    if (v == 0) {
        return INT32_MAX;
    }
    const int32_t quarter = (v & 0xFFFFFF) - (1 << 24);
    const int32_t x = cortado_shl(quarter, 5) + (1 << 28);
    const int32_t x2 = cortado_mul_high(x, x);
    const int32_t x3 = cortado_mul_high(x2, x), x4 = cortado_mul_high(x2, x2);
    const int32_t tail = cortado_mul_high(cortado_divide_pow2(x4, 2) + x3, 715827883) + x2;
    int32_t result = 1895147668;
    result += cortado_mul_high(result, x + cortado_divide_pow2(tail, 1));
    int32_t rest = (quarter - v) >> 24;
    for (const int32_t *factor = factors; rest != 0; rest >>= 1, factor++) {
        if ((rest & 1) != 0) {
            result = cortado_mul_high(result, *factor);
        }
    }
    return result;
}

static int32_t exp_difference(const cortado_softmax_t *L, int32_t difference)
{
    return exp_negative(cortado_mul_high(cortado_shl(difference, L->in_shift), L->in_multiplier));
}

void cortado_softmax_s8(const cortado_softmax_t *L, const int8_t *in, int8_t *out, int32_t rows, int32_t n)
{
    for (; rows > 0; rows--, in += n, out += n) {
        int32_t largest = -128, sum = 0, shift;
        for (int32_t i = 0; i < n; i++) {
            largest = cortado_max(largest, in[i]);
        }
        for (int32_t i = 0; i < n; i++) {
            if (in[i] - largest >= L->diff_min) {
                const int32_t one = cortado_divide_pow2(exp_difference(L, in[i] - largest), CORTADO_SOFTMAX_SUM_BITS);
                sum = cortado_min(sum + one, CORTADO_SOFTMAX_LARGEST_SUM);
            }
        }
        const int32_t scale = cortado_softmax_scale(sum, &shift);
        for (int32_t i = 0; i < n; i++) {
            const int32_t difference = in[i] - largest;
            out[i] = difference < L->diff_min
                         ? -128
                         : cortado_softmax_output(exp_difference(L, difference), scale, shift);
        }
    }
}
