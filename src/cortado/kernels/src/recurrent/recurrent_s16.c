/* SPDX-License-Identifier: Apache-2.0
 *
 * LSTM, GRU and RNN layers of 16-bit codes and 8-bit weights over all their steps: see cortado.h.
 *
 * Tile: 1 step x 1 unit (of a GRU's last gate and an RNN 2) x 2 rows of weights. Scratch: the cells or h16, and two
 * rows of codes that take turns.
 */
#include "cortado_recurrent.h"
#include "cortado_round.h"
#include "cortado_sequences_s16.h"
#include "cortado_wide.h"

/* One of the two sums of a gate. */
typedef struct {
    const int16_t *codes;
    const int8_t *weights;
    const int32_t *bias, *multiplier, *shift;
    int32_t length, sum_shift;
} path_t;

typedef struct {
    path_t x, h;
    int32_t units;
} paths_t;

/* A path's part of a gate, clamped to 31 bits so that two can be added. */
static int32_t gate(const path_t *p, int64_t sum, int32_t row)
{
    if (p->sum_shift > 0) {
        sum = (sum + ((int64_t)1 << (p->sum_shift - 1))) >> p->sum_shift;
    }
    const int64_t v = cortado_rounded((int32_t)sum, p->multiplier[row], p->shift[row]);
    return (int32_t)(v > (1 << 30) - 1 ? (1 << 30) - 1 : v < -(1 << 30) ? -(1 << 30) : v);
}

/* The same for two rows. */
static void path(const path_t *p, int32_t row, int32_t other, int32_t gates[2])
{
    cortado_wide_pair_t sum = {p->bias[row], p->bias[other]};
    cortado_wide_add(&sum, p->codes, p->weights + row * p->length, p->weights + other * p->length, p->length);
    gates[0] = gate(p, sum.a, row);
    gates[1] = gate(p, sum.b, other);
}

static paths_t paths_of(const cortado_recurrent_s16_t *L, const int16_t *x, const int16_t *before)
{
    const paths_t paths = {
        {x, L->weights_x, L->bias_x, L->multiplier_x, L->shift_x, L->in_c, L->sum_shift_x},
        {before, L->weights_h, L->bias_h, L->multiplier_h, L->shift_h, L->units, L->sum_shift_h},
        L->units,
    };
    return paths;
}

/* The sums of both paths, of two gates of a unit. */
static void sums_of(const paths_t *p, int32_t unit, int32_t first, int32_t second, int32_t sums[2])
{
    int32_t x[2], h[2];
    path(&p->x, unit + first * p->units, unit + second * p->units, x);
    path(&p->h, unit + first * p->units, unit + second * p->units, h);
    sums[0] = cortado_sat16(x[0] + h[0]);
    sums[1] = cortado_sat16(x[1] + h[1]);
}

static void lstm_step(const cortado_recurrent_s16_t *L, const int16_t *x, const int16_t *before, int16_t *after,
                      int16_t *state, int16_t *cells)
{
    const paths_t paths = paths_of(L, x, before);
    const int32_t bits = L->cell_bits;
    for (int32_t u = 0; u < L->units; u++) {
        int32_t first[2], second[2]; /* input and forget, new and output */
        sums_of(&paths, u, 0, 1, first);
        sums_of(&paths, u, 2, 3, second);
        int32_t product = cortado_sigmoid(first[0]) * cortado_tanh(second[0]);
        product = bits > 0 ? (product + (1 << (bits - 1))) >> bits : product;
        const int32_t c = cortado_sat16((cortado_sigmoid(first[1]) * state[u] + product + (1 << 14)) >> 15);
        /* The cell with 12 fractional bits. */
        const int32_t narrow =
            bits >= 3 ? cortado_sat16(cortado_shl(c, bits - 3)) : (c + (1 << (2 - bits))) >> (3 - bits);
        state[u] = (int16_t)c;
        after[u] = cortado_hidden_s16(L, cortado_sigmoid(second[1]) * cortado_tanh(narrow));
        if (cells != NULL) {
            cells[u] = cortado_code_s16(cortado_rounded(c, L->given_multiplier, L->given_shift));
        }
    }
}

/* One unit, of which the sums of the new gate are known. */
static void gru_unit(const cortado_recurrent_s16_t *L, const paths_t *paths, int32_t u, int32_t nx, int32_t nh,
                     int16_t *after, int16_t *state)
{
    const int32_t bits = L->cell_bits;
    int32_t gates[2];
    sums_of(paths, u, 0, 1, gates);
    const int32_t r = cortado_sigmoid(gates[0]), z = cortado_sigmoid(gates[1]);
    int32_t n = cortado_tanh(cortado_sat16(nx + ((r * cortado_sat16(nh) + (1 << 13)) >> 14)));
    n = bits > 0 ? (n + (1 << (bits - 1))) >> bits : n;
    state[u] = (int16_t)((n * 32768 + z * (state[u] - n) + (1 << 14)) >> 15);
    after[u] = cortado_hidden_s16(L, state[u]);
}

static void gru_step(const cortado_recurrent_s16_t *L, const int16_t *x, const int16_t *before, int16_t *after,
                     int16_t *state, int16_t *cells)
{
    const paths_t paths = paths_of(L, x, before);
    (void)cells;
    for (int32_t u = 0; u < L->units; u += 2) {
        const int32_t other = cortado_min(u + 1, L->units - 1), first = 2 * L->units;
        int32_t nx[2], nh[2];
        path(&paths.x, first + u, first + other, nx);
        path(&paths.h, first + u, first + other, nh);
        gru_unit(L, &paths, u, nx[0], nh[0], after, state);
        if (other > u) {
            gru_unit(L, &paths, other, nx[1], nh[1], after, state);
        }
    }
}

static int16_t rnn_unit(const cortado_recurrent_s16_t *L, int32_t sum)
{
    if (L->relu != 0) {
        return cortado_code_s16(((int64_t)cortado_max(sum, 0) + 128) >> 8);
    }
    return cortado_hidden_s16(L, cortado_tanh(cortado_sat16(sum)));
}

static void rnn_step(const cortado_recurrent_s16_t *L, const int16_t *x, const int16_t *before, int16_t *after,
                     int16_t *state, int16_t *cells)
{
    const paths_t paths = paths_of(L, x, before);
    (void)state;
    (void)cells;
    for (int32_t u = 0; u < L->units; u += 2) {
        const int32_t other = cortado_min(u + 1, L->units - 1);
        int32_t px[2], ph[2];
        path(&paths.x, u, other, px);
        path(&paths.h, u, other, ph);
        after[u] = rnn_unit(L, px[0] + ph[0]);
        after[other] = rnn_unit(L, px[1] + ph[1]);
    }
}

void cortado_lstm_s16(const cortado_recurrent_s16_t *L, const int16_t *in, const int16_t *start,
                      const int16_t *start_cells, int16_t *out, int16_t *cells, void *scratch)
{
    cortado_sequences_s16(L, in, start, start_cells, out, cells, scratch, lstm_step);
}

void cortado_gru_s16(const cortado_recurrent_s16_t *L, const int16_t *in, const int16_t *start, int16_t *out,
                     void *scratch)
{
    cortado_sequences_s16(L, in, start, NULL, out, NULL, scratch, gru_step);
}

void cortado_rnn_s16(const cortado_recurrent_s16_t *L, const int16_t *in, const int16_t *start, int16_t *out,
                     void *scratch)
{
    cortado_sequences_s16(L, in, start, NULL, out, NULL, scratch, rnn_step);
}
