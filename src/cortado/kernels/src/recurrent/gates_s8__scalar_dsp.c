/* SPDX-License-Identifier: Apache-2.0
 *
 * A few rows of one path of a gate, for recurrent layers: their products by the inner loop of linear layers, whose
 * stream it is (linear_group_s8__scalar_dsp.S), then from a multiple of 4 bytes on the words of cortado_gate_rows.h.
 *
 * Tile: 4 rows, on small cores 3. Scratch: none.
 */
#include "cortado_gate_rows.h"
#include "linear_group_s8__scalar_dsp.h"

#if !(defined(__thumb__) && CORTADO_SMALL_CORE)

#define GATE_ROWS cortado_gate_rows
#else
/* The same in assembly. */
const int8_t *cortado_gate_rows_s8__scalar(const int8_t *stream, int32_t *gates);
#define GATE_ROWS cortado_gate_rows_s8__scalar
#endif

const int8_t *CORTADO_ISA(cortado_gates_s8)(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates)
{
    gates[0] = gates[1] = gates[2] = 0;
#if !CORTADO_SMALL_CORE
    gates[3] = 0;
#endif
    stream = cortado_group_products(x, stream, n, gates);
    return GATE_ROWS(CORTADO_SMALL_CORE ? stream + (n & 3) : stream, gates);
}
