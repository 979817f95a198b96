/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax with its exponentials in a table: differences of int8 values take at most 256 values.
 */
#include "cortado.h"
#include "cortado_softmax.h"

void cortado_softmax_s8__table(const cortado_softmax_t *L, const int8_t *in, int8_t *out, int32_t rows, int32_t n)
{
    for (; rows > 0; rows--, in += n, out += n) {
        int32_t largest = -128, sum = 0, shift;
        for (int32_t i = 0; i < n; i++) {
            largest = cortado_max(largest, in[i]);
        }
        for (int32_t i = 0; i < n; i++) {
            if (in[i] - largest >= L->diff_min) {
                sum += cortado_divide_pow2(L->exp_table[largest - in[i]], CORTADO_SOFTMAX_SUM_BITS);
            }
        }
        const int32_t scale = cortado_softmax_scale(sum, &shift);
        for (int32_t i = 0; i < n; i++) {
            const int32_t difference = in[i] - largest;
            out[i] = difference < L->diff_min
                         ? -128
                         : cortado_softmax_output(L->exp_table[-difference], scale, shift);
        }
    }
}
