/* SPDX-License-Identifier: Apache-2.0
 *
 * Initial states, and the loop over the steps, of LSTM, GRU and RNN layers of 16-bit codes.
 */
#include "cortado_sequences_s16.h"

/* All steps of one sequence. out and cells: all that this sequence gives, or NULL. A state that is given is computed
 * where it goes, others in two rows that take turns. */
static void sequence(const cortado_recurrent_s16_t *L, const int16_t *in, int16_t *out, int16_t *cells, int16_t *state,
                     cortado_cell_s16_t step)
{
    const int32_t units = L->units;
    int16_t *const row = state + units;
    const int16_t *before = row;
    for (int32_t t = 0; t < L->steps; t++) {
        const int32_t at = L->reverse ? L->steps - 1 - t : t, ends = t == L->steps - 1;
        const int32_t gives_cells = cells != NULL && (L->gives_cells || ends), cell = L->gives_cells ? at * units : 0;
        int16_t *after = before == row ? row + units : row;
        if (out != NULL && (!L->last_only || ends)) {
            after = out + (L->last_only ? 0 : at * units);
        }
        step(L, in + at * L->in_c, before, after, state, gives_cells ? cells + cell : NULL);
        before = after;
    }
}

static int16_t started(const cortado_recurrent_s16_t *L, int32_t code)
{
    return cortado_code_s16(cortado_rounded(code, L->start_multiplier, L->start_shift));
}

void cortado_sequences_s16(const cortado_recurrent_s16_t *L, const int16_t *in, const int16_t *start,
                           const int16_t *start_cells, int16_t *out, int16_t *cells, int16_t *state,
                           cortado_cell_s16_t step)
{
    for (int32_t s = 0; s < L->sequences; s++) {
        for (int32_t i = 0; i < L->units; i++) {
            const int16_t given = start != NULL ? started(L, *start++) : 0;
            state[i] = (int16_t)(L->h16 ? given : 0);
            state[i + L->units] = L->h16 ? cortado_hidden_s16(L, given) : given;
            if (start_cells != NULL) {
                state[i] = cortado_code_s16(cortado_rounded(*start_cells++, L->cell_multiplier, L->cell_shift));
            }
        }
        sequence(L, in, out, cells, state, step);
        in += L->steps * L->in_c;
        if (out != NULL) {
            out += (L->last_only ? 1 : L->steps) * L->units;
        }
        if (cells != NULL) {
            cells += (L->gives_cells ? L->steps : 1) * L->units;
        }
    }
}
