/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax with its exponentials in a table: differences of int8 values take at most 256 values.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_softmax.h"

void cortado_softmax_table_s8(const cortado_softmax_t *L, const int8_t *in, int8_t *out, int32_t rows, int32_t n)
{
    const int32_t last = cortado_softmax_last(L->diff_min);
    const int32_t *const table = L->exp_table;
    for (; rows > 0; rows--, in += n, out += n) {
        int32_t largest = -128, sum = 0, shift;
        for (int32_t i = 0; i < n; i++) {
            largest = cortado_max(largest, in[i]);
        }
        for (int32_t i = 0; i < n; i++) {
            /* Never negative, so ties away from zero are ties up. */
            sum += ((table[cortado_min(largest - in[i], last)] >> (CORTADO_SOFTMAX_SUM_BITS - 1)) + 1) >> 1;
        }
        const int32_t scale = cortado_softmax_scale(sum, &shift);
        for (int32_t i = 0; i < n; i++) {
            out[i] = cortado_softmax_output(table[cortado_min(largest - in[i], last)], scale, shift);
        }
    }
}
