/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step of LSTM, GRU and RNN layers shares: the functions of gates. Internal.
 *
 * Gates are computed a few units at a time, of these gate after gate; `weights_x` and `weights_h` are streams in that
 * order, each group of rows as the variant of cortado_gates_s8 reads it.
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
static inline int32_t cortado_sigmoid(int32_t v) { return cortado_sat16((cortado_interpolate(v) + 128) >> 8); }

static inline int32_t cortado_tanh(int32_t v)
{
    return cortado_sat16((cortado_interpolate(v) - (1 << 22) + 64) >> 7);
}

#endif /* CORTADO_RECURRENT_H */
