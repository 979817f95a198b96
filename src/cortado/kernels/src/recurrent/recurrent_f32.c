/* SPDX-License-Identifier: Apache-2.0
 *
 * LSTM, GRU and RNN layers in float32 over all their steps: see cortado.h.
 *
 * Tile: 2 steps of the input, in portable C 1, and 1 of the state. Scratch: the sums of the gates, an LSTM's cells, and
 * the state where it is no output.
 */
#include "cortado_float.h"

/* Sums of all gates, [gates][units]: of the input and of the state. The first are where gates are computed. */
typedef struct {
    float *x, *h;
    const float *before; /* the state, from here to there; they may be the same */
    float *after, *cells;
} step_data_t;

typedef void (*step_t)(const cortado_recurrent_f32_t *L, const step_data_t *S);

static CORTADO_ONCE void add(float *to, const float *from, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        to[i] = to[i] + from[i];
    }
}

static void lstm_step(const cortado_recurrent_f32_t *L, const step_data_t *S)
{
    const int32_t units = L->units;
    float *const let_in = S->x, *const forget = let_in + units;
    float *const fresh = forget + units, *const out = fresh + units;
    add(let_in, S->h, 4 * units);
    cortado_sigmoid_f32(let_in, let_in, 2 * units);
    cortado_tanh_f32(fresh, fresh, units);
    cortado_sigmoid_f32(out, out, units);
    for (int32_t u = 0; u < units; u++) {
        const float kept = cortado_f32_mul(forget[u], S->cells[u]);
        S->cells[u] = cortado_f32_canonical(kept + cortado_f32_mul(let_in[u], fresh[u]));
    }
    cortado_tanh_f32(S->cells, S->h, units);
    for (int32_t u = 0; u < units; u++) {
        S->after[u] = cortado_f32_canonical(cortado_f32_mul(out[u], S->h[u]));
    }
}

static void gru_step(const cortado_recurrent_f32_t *L, const step_data_t *S)
{
    const int32_t units = L->units;
    float *const reset = S->x, *const update = reset + units, *const fresh = update + units;
    const float *const old = S->h + 2 * units;
    add(reset, S->h, 2 * units);
    cortado_sigmoid_f32(reset, reset, 2 * units);
    for (int32_t u = 0; u < units; u++) {
        fresh[u] = fresh[u] + cortado_f32_mul(reset[u], old[u]);
    }
    cortado_tanh_f32(fresh, fresh, units);
    for (int32_t u = 0; u < units; u++) {
        S->after[u] = cortado_f32_canonical(cortado_f32_step(S->before[u] - fresh[u], update[u], fresh[u]));
    }
}

static void rnn_step(const cortado_recurrent_f32_t *L, const step_data_t *S)
{
    add(S->x, S->h, L->units);
    if (L->relu == 0) {
        cortado_tanh_f32(S->x, S->after, L->units);
        return;
    }
    for (int32_t u = 0; u < L->units; u++) {
        S->after[u] = cortado_bounded(S->x[u], 0.0f, cortado_f32_infinity());
    }
}

/* A copy of a row, or zeros. */
static CORTADO_ONCE void set(float *to, const float *from, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        to[i] = from != NULL ? from[i] : 0.0f;
        CORTADO_STAY_A_LOOP;
    }
}

/* All steps of one sequence, the state in front of which lies where the first one goes. out and cells: all that this
 * sequence gives, or NULL. */
static void sequence(const cortado_recurrent_f32_t *L, const float *in, const step_data_t *first, float *cells,
                     int32_t moves, step_t step, cortado_gates_f32_t gates)
{
    const int32_t turned = L->reverse != 0, steps = L->steps;
    step_data_t S = *first;
    for (int32_t t = 0, count = 0; t < steps; t++) {
        if (t % L->together == 0) {
            count = cortado_min(L->together, steps - t);
            gates(L->path[0], in + (turned ? steps - t - count : t) * L->in_c, first->x, count);
            S.x = turned ? first->x + (count - 1) * L->sums : first->x;
        } else {
            S.x += turned ? -L->sums : L->sums;
        }
        gates(L->path[1], S.before, S.h, 1);
        step(L, &S);
        if (cells != NULL && (L->gives_cells || t == steps - 1)) {
            set(cells + (L->gives_cells ? turned ? steps - 1 - t : t : 0) * L->units, S.cells, L->units);
        }
        S.before = S.after;
        S.after += turned ? -moves : moves;
    }
}

static void sequences(const cortado_recurrent_f32_t *L, const float *in, const float *start, const float *start_cells,
                      float *out, float *cells, float *scratch, step_t step, cortado_gates_f32_t gates)
{
    const int32_t units = L->units, moves = out == NULL || L->last_only ? 0 : units;
    step_data_t S;
    S.x = scratch;
    S.h = S.x + L->together * L->sums;
    S.cells = S.h + L->sums;
    for (int32_t s = 0; s < L->sequences; s++) {
        S.after = out == NULL ? S.cells + units : L->reverse ? out + (L->steps - 1) * moves : out;
        S.before = S.after;
        set(S.after, start, units);
        if (L->has_cells) {
            set(S.cells, start_cells, units);
        }
        sequence(L, in, &S, cells, moves, step, gates);
        start = start != NULL ? start + units : NULL;
        start_cells = start_cells != NULL ? start_cells + units : NULL;
        in += L->steps * L->in_c;
        out = out != NULL ? out + (L->last_only ? 1 : L->steps) * units : NULL;
        cells = cells != NULL ? cells + (L->gives_cells ? L->steps : 1) * units : NULL;
    }
}

void cortado_lstm_f32(const cortado_recurrent_f32_t *L, const float *in, const float *start, const float *start_cells,
                      float *out, float *cells, void *scratch, cortado_gates_f32_t gates)
{
    sequences(L, in, start, start_cells, out, cells, scratch, lstm_step, gates);
}

void cortado_gru_f32(const cortado_recurrent_f32_t *L, const float *in, const float *start, float *out, void *scratch,
                     cortado_gates_f32_t gates)
{
    sequences(L, in, start, NULL, out, NULL, scratch, gru_step, gates);
}

void cortado_rnn_f32(const cortado_recurrent_f32_t *L, const float *in, const float *start, float *out, void *scratch,
                     cortado_gates_f32_t gates)
{
    sequences(L, in, start, NULL, out, NULL, scratch, rnn_step, gates);
}
