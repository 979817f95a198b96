/* SPDX-License-Identifier: Apache-2.0
 *
 * What LSTM, GRU and RNN layers share around a step: initial states, and the loop over the steps. Internal.
 */
#ifndef CORTADO_SEQUENCES_H
#define CORTADO_SEQUENCES_H

#include "cortado.h"
#include "cortado_math.h"

/* To 16 bits and to 8: one instruction where the core has it. */
static inline int32_t cortado_sat16(int32_t v)
{
#if defined(__thumb__) && !CORTADO_SMALL_CORE
    __asm__("ssat %0, #16, %0" : "+r"(v));
    return v;
#else
    return cortado_clamp(v, -32768, 32767);
#endif
}

static inline int8_t cortado_sat8(int32_t v)
{
#if defined(__thumb__) && !CORTADO_SMALL_CORE
    __asm__("ssat %0, #8, %0" : "+r"(v));
    return (int8_t)v;
#else
    return (int8_t)cortado_clamp(v, -128, 127);
#endif
}

/* A state in codes. */
static inline int8_t cortado_hidden(cortado_factor_t factor, int32_t offset, int32_t v)
{
    return cortado_sat8(cortado_scale(v, factor) + offset);
}

/* An initial state in the kernel's own steps. */
static inline int32_t cortado_started(const cortado_recurrent_t *L, int8_t code)
{
    return cortado_requant(code - L->start_zero, L->start_multiplier, L->start_shift);
}

/* One step: from the input's row and the state before to the state after; `out` is none of them. */
typedef void (*cortado_step_t)(const cortado_recurrent_t *L, const int8_t *x, const int8_t *before, int8_t *after,
                               int16_t *state, int8_t *out, cortado_gates_t gates);

/* All steps of one sequence; `before` is the state in front of the first. What a step gives is its state, or, with two
 * rows to keep that in, something else. */
static inline void cortado_steps(const cortado_recurrent_t *L, const int8_t *in, const int8_t *before, int8_t *out,
                                 int16_t *state, int8_t *kept, cortado_step_t step, cortado_gates_t gates)
{
    const int32_t last = L->reverse ? L->steps - 1 : 0, next = L->reverse ? -1 : 1;
    in += last * L->in_c;
    out += last * L->units;
    for (int32_t t = L->steps; t > 0; t--) {
        int8_t *after = kept == NULL ? out : kept + (t & 1) * L->units;
        step(L, in, before, after, state, out, gates);
        before = after;
        in += next * L->in_c;
        out += next * L->units;
    }
}

/* All sequences of an RNN layer. Scratch: a row of codes where the state is given. */
static inline void cortado_rnn_sequences(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start,
                                         int8_t *out, void *scratch, cortado_step_t step, cortado_gates_t gates)
{
    int8_t *first = scratch;
    for (int32_t s = 0; s < L->sequences; s++) {
        if (L->starts) {
            for (int32_t i = 0; i < L->units; i++) {
                first[i] = cortado_sat8(cortado_started(L, *start++) + L->out_offset);
            }
        }
        cortado_steps(L, in, L->starts ? first : L->zero, out, NULL, NULL, step, gates);
        in += L->steps * L->in_c;
        out += L->steps * L->units;
    }
}

/* All sequences of a GRU layer. Scratch: the state, and a row of codes where it is given. */
static inline void cortado_gru_sequences(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start,
                                         int8_t *out, void *scratch, cortado_step_t step, cortado_gates_t gates)
{
    const cortado_factor_t factor = cortado_factor(L->out_multiplier, L->out_shift);
    int16_t *state = scratch;
    int8_t *first = (int8_t *)(state + L->units);
    for (int32_t s = 0; s < L->sequences; s++) {
        for (int32_t i = 0; i < L->units; i++) {
            state[i] = 0;
            if (L->starts) {
                state[i] = (int16_t)cortado_sat16(cortado_started(L, *start++));
                first[i] = cortado_hidden(factor, L->out_offset, state[i]);
            }
            CORTADO_STAY_A_LOOP;
        }
        cortado_steps(L, in, L->starts ? first : L->zero, out, state, NULL, step, gates);
        in += L->steps * L->in_c;
        out += L->steps * L->units;
    }
}

/* All sequences of an LSTM layer. Scratch: the cells, and rows of codes where the state is given or not. */
static inline void cortado_lstm_sequences(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start,
                                          const int8_t *start_cells, int8_t *out, void *scratch, cortado_step_t step,
                                          cortado_gates_t gates)
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
                first[i] = cortado_sat8(cortado_started(L, *start++) + L->out_offset);
            }
        }
        cortado_steps(L, in, L->starts ? first : L->zero, out, cells, L->gives_cells ? rows : NULL, step, gates);
        in += L->steps * L->in_c;
        out += L->steps * L->units;
    }
}

#endif /* CORTADO_SEQUENCES_H */
