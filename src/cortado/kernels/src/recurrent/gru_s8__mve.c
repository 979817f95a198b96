/* SPDX-License-Identifier: Apache-2.0
 *
 * A GRU layer over all its steps with vector instructions: see recurrent_units_s8__mve.h.
 *
 * Tile: 1 step x 4 units. Scratch: the state, and a row of codes where it is given.
 */
#include "cortado_sequences.h"
#include "recurrent_units_s8__mve.h"

#if defined(__ARM_FEATURE_MVE)

static void step(const cortado_recurrent_t *L, const int8_t *x, const int8_t *before, int8_t *after, int16_t *state,
                 int8_t *cells, cortado_gates_t gates)
{
    cortado_units_mve_t T = cortado_units_mve(L, x, before, after, state);
    T.product_left = -L->cell_bits;
    (void)cells;
    (void)gates;
    cortado_gru_units_s8__mve(&T);
}

void cortado_gru_s8__mve(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start, int8_t *out,
                         void *scratch)
{
    cortado_gru_sequences(L, in, start, out, scratch, step, NULL);
}
#else
typedef int cortado_gru_needs_mve; /* an empty translation unit is not C */
#endif
