/* SPDX-License-Identifier: Apache-2.0
 *
 * An LSTM layer over all its steps with vector instructions: see recurrent_units_s8__mve.h.
 *
 * Tile: 1 step x 4 units. Scratch: the cells, and rows of codes where the state is given or not.
 */
#include "cortado_sequences.h"
#include "recurrent_units_s8__mve.h"

#if defined(__ARM_FEATURE_MVE)

static void step(const cortado_recurrent_t *L, const int8_t *x, const int8_t *before, int8_t *after, int16_t *state,
                 int8_t *cells, cortado_gates_t gates)
{
    cortado_units_mve_t T = cortado_units_mve(L, x, before, after, state);
    T.product_left = -L->cell_bits;
    T.cell_left = L->cell_bits - 3;
    T.out = cells;
    T.given = cortado_codes_mve(L->given_multiplier, L->given_shift, L->given_offset);
    (void)gates;
    cortado_lstm_units_s8__mve(&T);
}

void cortado_lstm_s8__mve(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start,
                          const int8_t *start_cells, int8_t *out, int8_t *cells, void *scratch)
{
    cortado_lstm_sequences(L, in, start, start_cells, out, cells, scratch, step, NULL);
}
#else
typedef int cortado_lstm_needs_mve; /* an empty translation unit is not C */
#endif
