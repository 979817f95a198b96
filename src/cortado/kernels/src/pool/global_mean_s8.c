/* SPDX-License-Identifier: Apache-2.0
 *
 * The mean over an image or its upper rows in a scale of its own, an input row per call.
 *
 * Tile: that of the function it is given, then 1 channel. Scratch: a 32-bit sum per channel.
 */
#include "cortado.h"
#include "cortado_math.h"

void cortado_global_mean_s8(const cortado_global_mean_t *L, const int8_t *row, int8_t *out, void *scratch, int32_t y,
                            cortado_sum_rows_t sum_rows)
{
    int32_t *acc = (int32_t *)scratch;
    const int32_t channels = L->channels;
    if (y == 0) {
        for (int32_t c = 0; c < channels; c++) {
            acc[c] = L->start;
            CORTADO_STAY_A_LOOP;
        }
    }
    sum_rows(acc, row, L->in_w, channels);
    if (y == L->rows - 1) {
        const cortado_factor_t factor = cortado_factor(L->multiplier, L->shift);
        for (int32_t c = 0; c < channels; c++) {
            out[c] = (int8_t)cortado_clamp(cortado_scale(acc[c], factor) + L->out_offset, -128, 127);
        }
    }
}
