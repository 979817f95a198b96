/* SPDX-License-Identifier: Apache-2.0
 *
 * Logarithm of softmax with vector instructions.
 *
 * Tile: 16 or 4 elements. Scratch: none.
 */
#include "cortado.h"

#if defined(__ARM_FEATURE_MVE)
#include "cortado_logarithm.h"
#include "softmax_passes_s8__mve.h"

void cortado_log_softmax_s8__mve(const cortado_log_softmax_t *L, const int8_t *in, int8_t *out, int32_t rows, int32_t n)
{
    int32_t limits[2], numbers[6]; /* filled one by one: an initializer may become a call */
    limits[1] = cortado_softmax_last(L->diff_min);
    numbers[0] = -L->slope;
    numbers[2] = -L->fraction_bits;
    numbers[3] = L->out_zero;
    numbers[4] = L->act_min;
    numbers[5] = L->act_max;
    for (; rows > 0; rows--, in += n, out += n) {
        uint64_t sum = 0;
        limits[0] = cortado_softmax_largest_s8__mve(in, n);
        for (int32_t i = 0; i < n; i += CORTADO_SOFTMAX_SUMMED) {
            const int32_t part = cortado_min(n - i, CORTADO_SOFTMAX_SUMMED);
            sum += (uint32_t)cortado_softmax_sum_s8__mve(in + i, part, L->exp_table, limits);
        }
        numbers[1] = limits[0] * L->slope + (1 << (L->fraction_bits - 1)) +
                     cortado_requant(cortado_log2_of_sum(sum), L->log_multiplier, L->log_shift);
        cortado_softmax_logarithms_s8__mve(in, out, n, numbers);
    }
}
#else
typedef int cortado_log_softmax_needs_mve; /* an empty translation unit is not C */
#endif
