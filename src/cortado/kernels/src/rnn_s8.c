/* SPDX-License-Identifier: Apache-2.0
 *
 * An RNN layer over all its steps: see cortado.h.
 *
 * Tile: 1 step x 4 units, on small cores 3. Scratch: a row of codes where the state is given.
 */
#include "cortado_recurrent.h"

static void step(const cortado_recurrent_t *L, const int8_t *x, const int8_t *before, int8_t *after, int16_t *state,
                 int8_t *out, cortado_products_t products)
{
    const int8_t *wx = L->weights_x, *wh = L->weights_h;
    (void)state;
    (void)out;
    for (int32_t j = 0; j < L->units; j += L->together) {
        int32_t gate[CORTADO_ROWS], h[CORTADO_ROWS];
        wx = cortado_path(L, x, wx, L->in_c, gate, products);
        wh = cortado_path(L, before, wh, L->units, h, products);
        for (int32_t i = 0; i < L->together && j + i < L->units; i++) {
            const int32_t sum = gate[i] + h[i];
            after[j + i] = L->relu ? (int8_t)cortado_min(((cortado_max(sum, 0) + 128) >> 8) + L->out_offset, 127)
                                   : cortado_hidden(L, cortado_tanh(cortado_sat16(sum)));
        }
    }
}

void cortado_rnn_s8(const cortado_recurrent_t *L, const int8_t *in, const int8_t *start, int8_t *out, void *scratch,
                    cortado_products_t products)
{
    cortado_rnn_sequences(L, in, start, out, scratch, step, products);
}
