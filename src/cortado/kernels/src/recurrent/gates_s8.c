/* SPDX-License-Identifier: Apache-2.0
 *
 * Four rows of one path of a gate, for recurrent layers on any core.
 *
 * Tile: 1 product x 4 rows. Scratch: none.
 *
 * The stream: | a | b | c | d |, one product of each row in turn, then | bias 4 | multiplier 4 | shift 4 | of each row.
 */
#include "cortado.h"
#include "cortado_math.h"

const int8_t *cortado_gates_s8(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates)
{
    gates[0] = gates[1] = gates[2] = gates[3] = 0;
    for (; n > 0; n--, x++, stream += 4) {
        for (int32_t i = 0; i < 4; i++) {
            gates[i] += *x * stream[i];
        }
    }
    for (int32_t i = 0; i < 4; i++, stream += 12) {
        gates[i] = cortado_requant(gates[i] + cortado_load4(stream), cortado_load4(stream + 4),
                                   cortado_load4(stream + 8));
    }
    return stream;
}
