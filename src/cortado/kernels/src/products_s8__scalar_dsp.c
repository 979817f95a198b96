/* SPDX-License-Identifier: Apache-2.0
 *
 * The sums of products of a few rows of weights with one vector, for recurrent layers: by the inner loop of linear
 * layers, whose stream it is (linear_group_s8__scalar_dsp.S).
 *
 * Tile: 4 rows, on small cores 3. Scratch: none.
 */
#include "linear_group_s8__scalar_dsp.h"

const int8_t *CORTADO_ISA(cortado_products_s8)(const int8_t *x, const int8_t *weights, int32_t n, int32_t *sums)
{
    return cortado_group_products(x, weights, n, sums);
}
