/* SPDX-License-Identifier: Apache-2.0
 *
 * An RNN layer over all its steps: see cortado.h.
 *
 * Tile: 1 step x 4 units, on small cores 3. Scratch: a row of codes where the state is given.
 */
#include "cortado_recurrent.h"

static void step(const cortado_recurrent_t *L, const int8_t *x, const int8_t *before, int8_t *after, int16_t *state,
                 int8_t *out)
{
    const int8_t *wx = L->weights_x, *wh = L->weights_h;
    (void)state;
    (void)out;
    for (int32_t j = 0; j < L->units; j += CORTADO_LINEAR_CHANNELS) {
        int32_t gate[CORTADO_LINEAR_CHANNELS], h[CORTADO_LINEAR_CHANNELS];
        wx = cortado_path(x, wx, L->in_c, gate);
        wh = cortado_path(before, wh, L->units, h);
        for (int32_t i = 0; i < CORTADO_LINEAR_CHANNELS && j + i < L->units; i++) {
            const int32_t sum = gate[i] + h[i];
            after[j + i] = L->relu ? (int8_t)cortado_min(((cortado_max(sum, 0) + 128) >> 8) + L->out_offset, 127)
                                   : cortado_hidden(L, cortado_tanh(cortado_sat16(sum)));
        }
    }
}

void cortado_rnn_s8(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start, int8_t *out, void *scratch)
{
    int8_t *first = scratch;
    for (int32_t s = 0; s < L->sequences; s++) {
        if (L->starts) {
            for (int32_t i = 0; i < L->units; i++) {
                first[i] = (int8_t)cortado_clamp(cortado_started(L, *start++) + L->out_offset, -128, 127);
            }
        }
        cortado_steps(L, in, L->starts ? first : L->zero, out, NULL, NULL, step);
        in += L->steps * L->in_c;
        out += L->steps * L->units;
    }
}
