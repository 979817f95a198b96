/* SPDX-License-Identifier: Apache-2.0
 *
 * An RNN layer over all its steps: see cortado.h.
 *
 * Tile: 1 step x 4 units, on small cores 3. Scratch: a row of codes where the state is given.
 */
#include "cortado_recurrent.h"

static void step(const cortado_recurrent_t *L, const int8_t *x, const int8_t *before, int8_t *after, int16_t *state,
                 int8_t *cells, cortado_gates_t gates)
{
    const cortado_factor_t factor = cortado_factor(L->out_multiplier, L->out_shift);
    const int32_t together = L->together, relu = L->relu, offset = L->out_offset;
    const int8_t *wx = L->weights_x, *wh = L->weights_h;
    (void)state;
    (void)cells;
    for (int32_t left = L->units; left > 0; left -= together) {
        int32_t paths[2 * CORTADO_ROWS], *sums = paths;
        wx = gates(x, wx, L->in_c, paths);
        wh = gates(before, wh, L->units, paths + CORTADO_ROWS);
        for (int32_t count = cortado_min(together, left); count > 0; count--, sums++) {
            const int32_t sum = sums[0] + sums[CORTADO_ROWS];
            if (relu != 0) {
                *after++ = cortado_sat8(((cortado_max(sum, 0) + 128) >> 8) + offset);
            } else {
                *after++ = cortado_hidden(factor, offset, cortado_tanh(cortado_sat16(sum)));
            }
        }
    }
}

void cortado_rnn_s8(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start, int8_t *out, void *scratch,
                    cortado_gates_t gates)
{
    cortado_rnn_sequences(L, in, start, out, scratch, step, gates);
}
