/* SPDX-License-Identifier: Apache-2.0
 *
 * What LSTM, GRU and RNN layers of 16-bit codes share around a step. Internal.
 */
#ifndef CORTADO_SEQUENCES_S16_H
#define CORTADO_SEQUENCES_S16_H

#include "cortado.h"
#include "cortado_round.h"

/* A state in codes. */
static inline int16_t cortado_hidden_s16(const cortado_recurrent_s16_t *L, int32_t v)
{
    return cortado_code_s16(cortado_rounded(v, L->out_multiplier, L->out_shift));
}

/* One step: from the input's row and the state before to the state after, of an LSTM also to the codes of `cells`,
 * which are `state`, unless NULL. */
typedef void (*cortado_cell_s16_t)(const cortado_recurrent_s16_t *L, const int16_t *x, const int16_t *before,
                                   int16_t *after, int16_t *state, int16_t *cells);

/* All sequences of a layer. Scratch: the cells or h16, and two rows of codes. */
void cortado_sequences_s16(const cortado_recurrent_s16_t *L, const int16_t *in, const int16_t *start,
                           const int16_t *start_cells, int16_t *out, int16_t *cells, int16_t *state,
                           cortado_cell_s16_t step);

#endif /* CORTADO_SEQUENCES_S16_H */
