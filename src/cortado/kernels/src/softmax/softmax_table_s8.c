/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax with its exponentials in a table: differences of int8 values take at most 256 values.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_softmax.h"

static int32_t sum_of(const int32_t *table, const int8_t *in, int32_t n, int32_t largest, int32_t last)
{
    int32_t sum = 0;
    while (n > 0) {
        for (const int8_t *const end = in + cortado_min(n, CORTADO_SOFTMAX_SUMMED); in < end; in++) {
            /* Never negative, so ties away from zero are ties up. */
            sum += ((table[cortado_min(largest - *in, last)] >> (CORTADO_SOFTMAX_SUM_BITS - 1)) + 1) >> 1;
        }
        n -= CORTADO_SOFTMAX_SUMMED;
        sum = cortado_min(sum, CORTADO_SOFTMAX_LARGEST_SUM);
    }
    return sum;
}

void cortado_softmax_table_s8(const cortado_softmax_t *L, const int8_t *in, int8_t *out, int32_t rows, int32_t n)
{
    const int32_t last = cortado_softmax_last(L->diff_min);
    const int32_t *const table = L->exp_table;
    for (; rows > 0; rows--, in += n, out += n) {
        int32_t largest = -128, shift;
        for (int32_t i = 0; i < n; i++) {
            largest = cortado_max(largest, in[i]);
        }
        const int32_t scale = cortado_softmax_scale(sum_of(table, in, n, largest, last), &shift);
        for (int32_t i = 0; i < n; i++) {
            out[i] = cortado_softmax_output(table[cortado_min(largest - in[i], last)], scale, shift);
        }
    }
}
