/* SPDX-License-Identifier: Apache-2.0
 *
 * An LSTM layer over all its steps: see cortado.h.
 *
 * Tile: 1 step x 4 units, on small cores 3. Scratch: the cells, and rows of codes where the state is given or not.
 */
#include "cortado_recurrent.h"

enum { INPUT, FORGET, NEW, OUTPUT, GATES };

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

static void step(const cortado_recurrent_t *L, const int8_t *x, const int8_t *before, int8_t *after, int16_t *cells,
                 int8_t *out, cortado_products_t products)
{
    const int8_t *wx = L->weights_x, *wh = L->weights_h;
    for (int32_t j = 0; j < L->units; j += L->together) {
        int32_t gate[GATES][CORTADO_ROWS], h[CORTADO_ROWS];
        for (int32_t g = 0; g < GATES; g++) {
            wx = cortado_path(L, x, wx, L->in_c, gate[g], products);
            wh = cortado_path(L, before, wh, L->units, h, products);
            for (int32_t i = 0; i < L->together; i++) {
                gate[g][i] = cortado_sat16(gate[g][i] + h[i]);
            }
        }
        for (int32_t i = 0; i < L->together && j + i < L->units; i++) {
            const int32_t c = next_cell(gate[INPUT][i], gate[FORGET][i], gate[NEW][i], cells[j + i], L->cell_bits);
            cells[j + i] = (int16_t)c;
            after[j + i] =
                cortado_hidden(L, cortado_sigmoid(gate[OUTPUT][i]) * cortado_tanh(narrowed(c, L->cell_bits)));
            if (L->gives_cells) {
                const int32_t code = cortado_requant(c, L->given_multiplier, L->given_shift) + L->given_offset;
                out[j + i] = (int8_t)cortado_clamp(code, -128, 127);
            }
        }
    }
}

void cortado_lstm_s8(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start, const int8_t *start_cells,
                     int8_t *out, void *scratch, cortado_products_t products)
{
    cortado_lstm_sequences(L, in, start, start_cells, out, scratch, step, products);
}
