/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax with vector instructions and its exponentials in a table.
 *
 * Tile: 16 or 4 elements. Scratch: none.
 */
#include "cortado.h"

#if defined(__ARM_FEATURE_MVE)
#include "cortado_softmax.h"
#include "softmax_passes_s8__mve.h"

/* limits is the largest of them and the last entry of the table. */
static int32_t sum_of(const int32_t *table, const int8_t *in, int32_t n, const int32_t *limits)
{
    int32_t sum = 0;
    for (; n > 0; n -= CORTADO_SOFTMAX_SUMMED, in += CORTADO_SOFTMAX_SUMMED) {
        sum += cortado_softmax_sum_s8__mve(in, cortado_min(n, CORTADO_SOFTMAX_SUMMED), table, limits);
        sum = cortado_min(sum, CORTADO_SOFTMAX_LARGEST_SUM);
    }
    return sum;
}

void cortado_softmax_table_s8__mve(const cortado_softmax_t *L, const int8_t *in, int8_t *out, int32_t rows, int32_t n)
{
    for (; rows > 0; rows--, in += n, out += n) {
        int32_t factors[4], shift;
        factors[0] = cortado_softmax_largest_s8__mve(in, n);
        factors[1] = cortado_softmax_last(L->diff_min);
        factors[2] = cortado_softmax_scale(sum_of(L->exp_table, in, n, factors), &shift);
        factors[3] = -shift;
        cortado_softmax_outputs_s8__mve(in, out, n, L->exp_table, factors);
    }
}
#else
typedef int cortado_softmax_needs_mve; /* an empty translation unit is not C */
#endif
