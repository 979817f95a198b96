/* SPDX-License-Identifier: Apache-2.0
 *
 * The mean of 16-bit codes over an image or its upper rows in a scale of its own, an input row per call.
 *
 * Tile: 4 channels with vector or DSP instructions, else 1. Scratch: a 32-bit sum per channel.
 */
#include "cortado_sum_row_s16.h"

void cortado_global_mean_s16(const cortado_global_mean_t *L, const int16_t *row, int16_t *out, void *scratch, int32_t y)
{
    int32_t *acc = (int32_t *)scratch;
    const int32_t channels = L->channels;
    if (y == 0) {
        for (int32_t c = 0; c < channels; c++) {
            acc[c] = 0;
            CORTADO_STAY_A_LOOP;
        }
    }
    sum_row(acc, row, L->in_w, channels);
    if (y == L->rows - 1) {
        for (int32_t c = 0; c < channels; c++) {
            out[c] = (int16_t)cortado_clamp(cortado_requant(acc[c], L->multiplier, L->shift), -32768, 32767);
        }
    }
}
