/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step of LSTM, GRU and RNN layers shares: gates and their functions. Internal.
 *
 * Gates are computed a few units at a time, of these gate after gate; `weights_x` and `weights_h` are streams in that
 * order. For each group of rows: its products, as the variant of cortado_products_s8 reads them, then
 *
 *   | bias 4 | multiplier 4 | shift 4 |   for each row
 */
#ifndef CORTADO_RECURRENT_H
#define CORTADO_RECURRENT_H

#include "cortado_sequences.h"
#include "cortado_sigmoid.h"

#define CORTADO_ROWS 4 /* of a group, at most */

/* sigmoid(v / 2048) with 23 fractional bits, -32768 <= v <= 32767. */
static inline int32_t cortado_interpolate(int32_t v)
{
    const int32_t above = v + 32768, entry = cortado_sigmoid_table[above >> 7];
    return entry * 128 + (above & 127) * (cortado_sigmoid_table[(above >> 7) + 1] - entry);
}

/* sigmoid(v / 2048) and tanh(v / 4096) with 15 fractional bits. */
static inline int32_t cortado_sigmoid(int32_t v) { return cortado_min((cortado_interpolate(v) + 128) >> 8, 32767); }

static inline int32_t cortado_tanh(int32_t v)
{
    return cortado_min((cortado_interpolate(v) - (1 << 22) + 64) >> 7, 32767);
}

/* A word of a stream, which on small cores lies anywhere. */
static inline int32_t cortado_stream_word(const int8_t *stream)
{
#if CORTADO_SMALL_CORE
    int32_t v = 0;
    for (int i = 3; i >= 0; i--) {
        v = cortado_shl(v, 8) | (uint8_t)stream[i];
    }
    return v;
#else
    return cortado_load4(stream);
#endif
}

/* One path of one gate for a group of units; returns the stream after it. */
static CORTADO_ONCE const int8_t *cortado_path(const cortado_recurrent_t *L, const int8_t *x, const int8_t *stream,
                                               int32_t n, int32_t *gate, cortado_products_t products)
{
    int32_t sums[CORTADO_ROWS]; /* not `= {0}`, which may become a call */
    sums[0] = sums[1] = sums[2] = sums[3] = 0;
    stream = products(x, stream, n, sums);
    for (int32_t i = 0; i < L->together; i++, stream += 12) {
        gate[i] = cortado_requant(sums[i] + cortado_stream_word(stream), cortado_stream_word(stream + 4),
                                  cortado_stream_word(stream + 8));
    }
    return stream;
}

#endif /* CORTADO_RECURRENT_H */
