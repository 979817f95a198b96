/* SPDX-License-Identifier: Apache-2.0
 *
 * An LSTM layer of 16-bit codes over all its steps with vector instructions: see recurrent_units__mve.h.
 *
 * Tile: 1 step x 4 units. Scratch: the cells, and two rows of codes for states that are not given.
 */
#include "cortado_sequences_s16.h"
#include "recurrent_units_s16__mve.h"

#if defined(__ARM_FEATURE_MVE)

static void step(const cortado_recurrent_s16_t *L, const int16_t *x, const int16_t *before, int16_t *after,
                 int16_t *state, int16_t *cells)
{
    cortado_units_mve_t T = cortado_wide_units_mve(L, x, before, after, state);
    T.product_left = -L->cell_bits;
    T.cell_left = L->cell_bits - 3;
    T.out = cells;
    T.given = cortado_wide_codes_mve(L->given_multiplier, L->given_shift);
    cortado_lstm_units_s16__mve(&T);
}

void cortado_lstm_s16__mve(const cortado_recurrent_s16_t *L, const int16_t *in, const int16_t *start,
                           const int16_t *start_cells, int16_t *out, int16_t *cells, void *scratch)
{
    cortado_sequences_s16(L, in, start, start_cells, out, cells, scratch, step);
}
#else
typedef int cortado_lstm_s16_needs_mve; /* an empty translation unit is not C */
#endif
