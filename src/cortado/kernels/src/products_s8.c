/* SPDX-License-Identifier: Apache-2.0
 *
 * The sums of products of four rows of weights with one vector, for recurrent layers on any core.
 *
 * Tile: 1 product x 4 rows. Scratch: none.
 *
 * The stream: | a | b | c | d |, one product of each row in turn.
 */
#include "cortado.h"

const int8_t *cortado_products_s8(const int8_t *x, const int8_t *weights, int32_t n, int32_t *sums)
{
    for (; n > 0; n--, x++, weights += 4) {
        for (int32_t i = 0; i < 4; i++) {
            sums[i] += *x * weights[i];
        }
    }
    return weights;
}
