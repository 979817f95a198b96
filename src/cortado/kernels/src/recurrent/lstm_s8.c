/* SPDX-License-Identifier: Apache-2.0
 *
 * An LSTM layer over all its steps: see cortado.h.
 *
 * Tile: 1 step x 4 units, on small cores 3. Scratch: the cells, and rows of codes where the state is given or not.
 */
#include "cortado_recurrent.h"

enum { INPUT, FORGET, NEW, OUTPUT, GATES };

static int32_t sum(int32_t x, int32_t h) { return cortado_sat16(x + h); }

static int32_t next_cell(int32_t input, int32_t forget, int32_t new_value, int32_t cell, int32_t bits)
{
    int32_t product = cortado_sigmoid(input) * cortado_tanh(new_value);
    if (bits > 0) {
        product = (product + (1 << (bits - 1))) >> bits;
    }
    return cortado_sat16((cortado_sigmoid(forget) * cell + product + (1 << 14)) >> 15);
}

/* The cell with 12 fractional bits. */
static int32_t narrowed(int32_t cell, int32_t bits)
{
    return bits >= 3 ? cortado_sat16(cortado_shl(cell, bits - 3)) : (cell + (1 << (2 - bits))) >> (3 - bits);
}

static void step(const cortado_recurrent_t *L, const int8_t *x, const int8_t *before, int8_t *after, int16_t *state,
                 int8_t *cells, cortado_gates_t gates)
{
    const cortado_factor_t factor = cortado_factor(L->out_multiplier, L->out_shift);
    const int32_t together = L->together, offset = L->out_offset, bits = L->cell_bits;
    const int8_t *wx = L->weights_x, *wh = L->weights_h;
    for (int32_t left = L->units; left > 0; left -= together) {
        int32_t gx[GATES][CORTADO_ROWS], gh[GATES][CORTADO_ROWS];
        for (int32_t g = 0; g < GATES; g++) {
            wx = gates(x, wx, L->in_c, gx[g]);
            wh = gates(before, wh, L->units, gh[g]);
        }
        for (int32_t i = 0, count = cortado_min(together, left); i < count; i++, state++) {
            const int32_t c = next_cell(sum(gx[INPUT][i], gh[INPUT][i]), sum(gx[FORGET][i], gh[FORGET][i]),
                                        sum(gx[NEW][i], gh[NEW][i]), *state, bits);
            const int32_t o = cortado_sigmoid(sum(gx[OUTPUT][i], gh[OUTPUT][i]));
            *state = (int16_t)c;
            *after++ = cortado_hidden(factor, offset, o * cortado_tanh(narrowed(c, bits)));
            if (cells != NULL) {
                const int32_t code = cortado_requant(c, L->given_multiplier, L->given_shift) + L->given_offset;
                *cells++ = cortado_sat8(code);
            }
        }
    }
}

void cortado_lstm_s8(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start, const int8_t *start_cells,
                     int8_t *out, int8_t *cells, void *scratch, cortado_gates_t gates)
{
    cortado_lstm_sequences(L, in, start, start_cells, out, cells, scratch, step, gates);
}
