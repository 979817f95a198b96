/* SPDX-License-Identifier: Apache-2.0
 *
 * The mean of 16-bit codes over the last rows of an endless sequence in a scale of its own, a row per call.
 *
 * A ring holds the sum of each of these rows: what leaves is subtracted, what enters is added, exactly.
 *
 * Tile: 4 channels with vector or DSP instructions, else 1. Scratch: kept from call to call.
 */
#include "cortado_sum_row_s16.h"

/* Resets the sums of all rows and their total. */
static void start_anew(const cortado_global_mean_t *L, int32_t *sums)
{
    for (int32_t i = (1 + L->rows) * L->channels; i > 0; i--) {
        *sums++ = 0;
        CORTADO_STAY_A_LOOP;
    }
}

void cortado_running_mean_s16(const cortado_global_mean_t *L, const int16_t *row, int16_t *out, void *scratch,
                              int32_t y)
{
    const int32_t channels = L->channels;
    int32_t *next = (int32_t *)scratch, *acc = next + 1, *sums = acc + channels;
    if (y == 0) {
        *next = 0;
        start_anew(L, acc);
    }
    sums += *next * channels;
    for (int32_t c = 0; c < channels; c++) {
        acc[c] -= sums[c];
        sums[c] = acc[c];
    }
    sum_row(acc, row, L->in_w, channels);
    for (int32_t c = 0; c < channels; c++) {
        sums[c] = acc[c] - sums[c];
        out[c] = (int16_t)cortado_clamp(cortado_requant(acc[c], L->multiplier, L->shift), -32768, 32767);
    }
    *next = *next + 1 == L->rows ? 0 : *next + 1;
}
