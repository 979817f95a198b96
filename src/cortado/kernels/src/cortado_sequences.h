/* SPDX-License-Identifier: Apache-2.0
 *
 * What LSTM, GRU and RNN layers share around a step: initial states, and the loop over the steps. Internal.
 */
#ifndef CORTADO_SEQUENCES_H
#define CORTADO_SEQUENCES_H

#include "cortado.h"
#include "cortado_math.h"

static inline int32_t cortado_sat16(int32_t v) { return cortado_clamp(v, -32768, 32767); }

static inline int8_t cortado_hidden(const cortado_recurrent_t *L, int32_t v)
{
    return (int8_t)cortado_clamp(cortado_requant(v, L->out_multiplier, L->out_shift) + L->out_offset, -128, 127);
}

/* An initial state in the kernel's own steps. */
static inline int32_t cortado_started(const cortado_recurrent_t *L, int8_t code)
{
    return cortado_requant(code - L->start_zero, L->start_multiplier, L->start_shift);
}

/* One step: from the input's row and the state before to the state after; `out` is none of them. */
typedef void (*cortado_step_t)(const cortado_recurrent_t *L, const int8_t *x, const int8_t *before, int8_t *after,
                               int16_t *state, int8_t *out, cortado_products_t products);

/* All steps of one sequence; `before` is the state in front of the first. What a step gives is its state, or, with two
 * rows to keep that in, something else. */
static inline void cortado_steps(const cortado_recurrent_t *L, const int8_t *in, const int8_t *before, int8_t *out,
                                 int16_t *state, int8_t *kept, cortado_step_t step, cortado_products_t products)
{
    const int32_t last = L->reverse ? L->steps - 1 : 0, next = L->reverse ? -1 : 1;
    in += last * L->in_c;
    out += last * L->units;
    for (int32_t t = L->steps; t > 0; t--) {
        int8_t *after = kept == NULL ? out : kept + (t & 1) * L->units;
        step(L, in, before, after, state, out, products);
        before = after;
        in += next * L->in_c;
        out += next * L->units;
    }
}

/* All sequences of an RNN layer. Scratch: a row of codes where the state is given. */
static inline void cortado_rnn_sequences(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start,
                                         int8_t *out, void *scratch, cortado_step_t step, cortado_products_t products)
{
    int8_t *first = scratch;
    for (int32_t s = 0; s < L->sequences; s++) {
        if (L->starts) {
            for (int32_t i = 0; i < L->units; i++) {
                first[i] = (int8_t)cortado_clamp(cortado_started(L, *start++) + L->out_offset, -128, 127);
            }
        }
        cortado_steps(L, in, L->starts ? first : L->zero, out, NULL, NULL, step, products);
        in += L->steps * L->in_c;
        out += L->steps * L->units;
    }
}

/* All sequences of a GRU layer. Scratch: the state, and a row of codes where it is given. */
static inline void cortado_gru_sequences(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start,
                                         int8_t *out, void *scratch, cortado_step_t step, cortado_products_t products)
{
    int16_t *state = scratch;
    int8_t *first = (int8_t *)(state + L->units);
    for (int32_t s = 0; s < L->sequences; s++) {
        for (int32_t i = 0; i < L->units; i++) {
            state[i] = 0;
            if (L->starts) {
                state[i] = (int16_t)cortado_sat16(cortado_started(L, *start++));
                first[i] = cortado_hidden(L, state[i]);
            }
            CORTADO_STAY_A_LOOP;
        }
        cortado_steps(L, in, L->starts ? first : L->zero, out, state, NULL, step, products);
        in += L->steps * L->in_c;
        out += L->steps * L->units;
    }
}

/* All sequences of an LSTM layer. Scratch: the cells, and rows of codes where the state is given or not. */
static inline void cortado_lstm_sequences(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start,
                                          const int8_t *start_cells, int8_t *out, void *scratch, cortado_step_t step,
                                          cortado_products_t products)
{
    int16_t *cells = scratch;
    int8_t *rows = (int8_t *)(cells + L->units);
    for (int32_t s = 0; s < L->sequences; s++) {
        for (int32_t i = 0; i < L->units; i++) {
            cells[i] = 0;
            if (L->starts) {
                const int32_t cell = *start_cells++ - L->cell_zero;
                cells[i] = (int16_t)cortado_sat16(cortado_requant(cell, L->cell_multiplier, L->cell_shift));
            }
            CORTADO_STAY_A_LOOP;
        }
        /* The step before the first one leaves its row where the first one does not write. */
        int8_t *first = rows + (L->gives_cells ? ((L->steps + 1) & 1) * L->units : 0);
        if (L->starts) {
            for (int32_t i = 0; i < L->units; i++) {
                first[i] = (int8_t)cortado_clamp(cortado_started(L, *start++) + L->out_offset, -128, 127);
            }
        }
        cortado_steps(L, in, L->starts ? first : L->zero, out, cells, L->gives_cells ? rows : NULL, step, products);
        in += L->steps * L->in_c;
        out += L->steps * L->units;
    }
}

#endif /* CORTADO_SEQUENCES_H */
