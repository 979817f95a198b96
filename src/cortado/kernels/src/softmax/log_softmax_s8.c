/* SPDX-License-Identifier: Apache-2.0
 *
 * Logarithm of softmax.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_logarithm.h"

void cortado_log_softmax_s8(const cortado_log_softmax_t *L, const int8_t *in, int8_t *out, int32_t rows, int32_t n)
{
    const int32_t half = 1 << (L->fraction_bits - 1), last = cortado_softmax_last(L->diff_min);
    for (; rows > 0; rows--, in += n, out += n) {
        int32_t largest = -128;
        uint64_t sum = 0;
        for (int32_t i = 0; i < n; i++) {
            largest = cortado_max(largest, in[i]);
        }
        for (int32_t i = 0; i < n; i++) {
            const int32_t exponential = L->exp_table[cortado_min(largest - in[i], last)];
            sum += (uint32_t)cortado_divide_pow2(exponential, CORTADO_SOFTMAX_SUM_BITS);
        }
        const int32_t logarithm = cortado_requant(cortado_log2_of_sum(sum), L->log_multiplier, L->log_shift) + half;
        for (int32_t i = 0; i < n; i++) {
            const int32_t v = L->out_zero - (((largest - in[i]) * L->slope + logarithm) >> L->fraction_bits);
            out[i] = (int8_t)cortado_clamp(v, L->act_min, L->act_max);
        }
    }
}
