/* SPDX-License-Identifier: Apache-2.0
 *
 * An RNN layer over all its steps with vector instructions: see recurrent_units_s8__mve.h.
 *
 * Tile: 1 step x 4 units. Scratch: a row of codes where the state is given.
 */
#include "cortado_sequences.h"
#include "recurrent_units_s8__mve.h"

#if defined(__ARM_FEATURE_MVE)

static void step(const cortado_recurrent_t *L, const int8_t *x, const int8_t *before, int8_t *after, int16_t *state,
                 int8_t *cells, cortado_gates_t gates)
{
    cortado_units_mve_t T = cortado_units_mve(L, x, before, after, state);
    T.relu = L->relu;
    (void)cells;
    (void)gates;
    cortado_rnn_units_s8__mve(&T);
}

void cortado_rnn_s8__mve(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start, int8_t *out,
                         void *scratch)
{
    cortado_rnn_sequences(L, in, start, out, scratch, step, NULL);
}
#else
typedef int cortado_rnn_needs_mve; /* an empty translation unit is not C */
#endif
