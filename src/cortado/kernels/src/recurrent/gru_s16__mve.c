/* SPDX-License-Identifier: Apache-2.0
 *
 * A GRU layer of 16-bit codes over all its steps with vector instructions: see recurrent_units__mve.h.
 *
 * Tile: 1 step x 4 units. Scratch: h16, and two rows of codes for states that are not given.
 */
#include "cortado_sequences_s16.h"
#include "recurrent_units_s16__mve.h"

#if defined(__ARM_FEATURE_MVE)

static void step(const cortado_recurrent_s16_t *L, const int16_t *x, const int16_t *before, int16_t *after,
                 int16_t *state, int16_t *cells)
{
    cortado_units_mve_t T = cortado_wide_units_mve(L, x, before, after, state);
    T.product_left = -L->cell_bits;
    (void)cells;
    cortado_gru_units_s16__mve(&T);
}

void cortado_gru_s16__mve(const cortado_recurrent_s16_t *L, const int16_t *in, const int16_t *start, int16_t *out,
                          void *scratch)
{
    cortado_sequences_s16(L, in, start, NULL, out, NULL, scratch, step);
}
#else
typedef int cortado_gru_s16_needs_mve; /* an empty translation unit is not C */
#endif
