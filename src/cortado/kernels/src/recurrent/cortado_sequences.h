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

/* One step: from the input's row and the state before to the state after, of an LSTM also to the codes of `cells`,
 * which are `state`, unless NULL. */
typedef void (*cortado_cell_t)(const cortado_recurrent_t *L, const int8_t *x, const int8_t *before, int8_t *after,
                               int16_t *state, int8_t *cells, cortado_gates_t gates);

/* Rows of codes beside the output: two that take turns where states don't go there, or one for the first. */
static inline int32_t cortado_kept_rows(const cortado_recurrent_t *L)
{
    return L->no_states || L->last_only ? 2 : L->starts ? 1 : 0;
}

/* Where the state in front of the first step lies: not where the first step writes. */
static inline int8_t *cortado_first_row(const cortado_recurrent_t *L, int8_t *rows)
{
    return rows + (cortado_kept_rows(L) == 2 ? ((L->steps + 1) & 1) * L->units : 0);
}

/* Bytes that one sequence gives. */
static inline int32_t cortado_given(const cortado_recurrent_t *L)
{
    return (L->last_only ? 1 : L->steps) * L->units;
}

/* All steps of one sequence; `before` is the state in front of the first. What a step gives is its state, or, with two
 * rows to keep that in, nothing, or nothing before the last; and its cells, if they are not NULL. */
static inline void cortado_steps(const cortado_recurrent_t *L, const int8_t *in, const int8_t *before, int8_t *out,
                                 int8_t *cells, int16_t *state, int8_t *rows, cortado_cell_t step,
                                 cortado_gates_t gates)
{
    const int32_t last = L->reverse ? L->steps - 1 : 0, next = L->reverse ? -1 : 1;
    const int32_t to_out = cells == NULL || !L->no_states, aside = L->last_only || !to_out, moves = aside ? 0 : 1;
    const int32_t all_cells = cells != NULL && L->gives_cells;
    int32_t cell = all_cells ? last * L->units : 0;
    in += last * L->in_c;
    out = to_out ? out + moves * last * L->units : rows;
    for (int32_t t = L->steps; t > 0; t--) {
        int8_t *after = aside && t > to_out ? rows + (t & 1) * L->units : out;
        step(L, in, before, after, state, cells != NULL && (all_cells || t == 1) ? cells + cell : NULL, gates);
        before = after;
        in += next * L->in_c;
        out += moves * next * L->units;
        cell += all_cells ? next * L->units : 0;
    }
}

/* All sequences of an RNN layer. Scratch: rows of codes. */
static inline void cortado_rnn_sequences(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start,
                                         int8_t *out, void *scratch, cortado_cell_t step, cortado_gates_t gates)
{
    int8_t *first = cortado_first_row(L, scratch);
    for (int32_t s = 0; s < L->sequences; s++) {
        if (L->starts != 0) {
            for (int32_t i = 0; i < L->units; i++) {
                first[i] = cortado_sat8(cortado_started(L, *start++) + L->out_offset);
            }
        }
        cortado_steps(L, in, L->starts ? first : L->zero, out, NULL, NULL, scratch, step, gates);
        in += L->steps * L->in_c;
        out += cortado_given(L);
    }
}

/* All sequences of a GRU layer. Scratch: the state, and rows of codes. */
static inline void cortado_gru_sequences(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start,
                                         int8_t *out, void *scratch, cortado_cell_t step, cortado_gates_t gates)
{
    const cortado_factor_t factor = cortado_factor(L->out_multiplier, L->out_shift);
    int16_t *state = scratch;
    int8_t *rows = (int8_t *)(state + L->units), *first = cortado_first_row(L, rows);
    for (int32_t s = 0; s < L->sequences; s++) {
        for (int32_t i = 0; i < L->units; i++) {
            state[i] = 0;
            if (L->starts != 0) {
                state[i] = (int16_t)cortado_sat16(cortado_started(L, *start++));
                first[i] = cortado_hidden(factor, L->out_offset, state[i]);
            }
            CORTADO_STAY_A_LOOP;
        }
        cortado_steps(L, in, L->starts ? first : L->zero, out, NULL, state, rows, step, gates);
        in += L->steps * L->in_c;
        out += cortado_given(L);
    }
}

/* All sequences of an LSTM layer. Scratch: the cells, and rows of codes. */
static inline void cortado_lstm_sequences(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start,
                                          const int8_t *start_cells, int8_t *out, int8_t *cells, void *scratch,
                                          cortado_cell_t step, cortado_gates_t gates)
{
    int16_t *state = scratch;
    int8_t *rows = (int8_t *)(state + L->units), *first = cortado_first_row(L, rows);
    for (int32_t s = 0; s < L->sequences; s++) {
        for (int32_t i = 0; i < L->units; i++) {
            state[i] = 0;
            if (L->starts != 0) {
                const int32_t cell = *start_cells++ - L->cell_zero;
                state[i] = (int16_t)cortado_sat16(cortado_requant(cell, L->cell_multiplier, L->cell_shift));
            }
            CORTADO_STAY_A_LOOP;
        }
        if (L->starts != 0) {
            for (int32_t i = 0; i < L->units; i++) {
                first[i] = cortado_sat8(cortado_started(L, *start++) + L->out_offset);
            }
        }
        cortado_steps(L, in, L->starts ? first : L->zero, out, cells, state, rows, step, gates);
        in += L->steps * L->in_c;
        if (out != NULL) {
            out += cortado_given(L);
        }
        if (cells != NULL) {
            cells += (L->gives_cells ? L->steps : 1) * L->units;
        }
    }
}

#endif /* CORTADO_SEQUENCES_H */
