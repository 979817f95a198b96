/* SPDX-License-Identifier: Apache-2.0
 *
 * A GRU layer over all its steps: see cortado.h.
 *
 * Tile: 1 step x 4 units, on small cores 3. Scratch: the state, and a row of codes where it is given.
 */
#include "cortado_recurrent.h"

static int32_t next_state(int32_t reset, int32_t update, int32_t new_x, int32_t new_h, int32_t state,
                          int32_t bits)
{
    const int32_t r = cortado_sigmoid(cortado_sat16(reset)), z = cortado_sigmoid(cortado_sat16(update));
    int32_t n = cortado_tanh(cortado_sat16(new_x + ((r * cortado_sat16(new_h) + (1 << 13)) >> 14)));
    if (bits > 0) {
        n = (n + (1 << (bits - 1))) >> bits;
    }
    return (n * 32768 + z * (state - n) + (1 << 14)) >> 15;
}

static void step(const cortado_recurrent_t *L, const int8_t *x, const int8_t *before, int8_t *after, int16_t *state,
                 int8_t *cells, cortado_gates_t gates)
{
    const cortado_factor_t factor = cortado_factor(L->out_multiplier, L->out_shift);
    const int32_t together = L->together, offset = L->out_offset, bits = L->cell_bits;
    const int8_t *wx = L->weights_x, *wh = L->weights_h;
    (void)cells;
    for (int32_t left = L->units; left > 0; left -= together) {
        int32_t gx[3][CORTADO_ROWS], gh[3][CORTADO_ROWS];
        for (int32_t g = 0; g < 3; g++) {
            wx = gates(x, wx, L->in_c, gx[g]);
            wh = gates(before, wh, L->units, gh[g]);
        }
        for (int32_t i = 0, count = cortado_min(together, left); i < count; i++, state++) {
            const int32_t h = next_state(gx[0][i] + gh[0][i], gx[1][i] + gh[1][i], gx[2][i], gh[2][i], *state, bits);
            *state = (int16_t)h;
            *after++ = cortado_hidden(factor, offset, h);
        }
    }
}

void cortado_gru_s8(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start, int8_t *out, void *scratch,
                    cortado_gates_t gates)
{
    cortado_gru_sequences(L, in, start, out, scratch, step, gates);
}
