/* SPDX-License-Identifier: Apache-2.0
 *
 * The mean over the last rows of an endless sequence in a scale of its own, a row per call.
 *
 * A ring holds the sum of each of these rows: what leaves is subtracted, what enters is added, exactly.
 *
 * Tile: that of the function it is given, then 1 channel. Scratch: kept from call to call.
 */
#include "cortado.h"
#include "cortado_math.h"

/* Resets the sums of all rows. */
static void start_anew(const cortado_global_mean_t *L, int32_t *acc, uint16_t *sums)
{
    for (int32_t c = 0; c < L->channels; c++) {
        acc[c] = L->start;
        CORTADO_STAY_A_LOOP;
    }
    for (int32_t i = L->rows * L->channels; i > 0; i--) {
        *sums++ = 0;
        CORTADO_STAY_A_LOOP;
    }
}

void cortado_running_mean_s8(const cortado_global_mean_t *L, const int8_t *row, int8_t *out, void *scratch, int32_t y,
                             cortado_sum_rows_t sum_rows)
{
    const int32_t channels = L->channels;
    int32_t *next = (int32_t *)scratch, *acc = next + 1;
    uint16_t *sums = (uint16_t *)(void *)(acc + channels);
    if (y == 0) {
        *next = 0;
        start_anew(L, acc, sums);
    }
    sums += *next * channels;
    for (int32_t c = 0; c < channels; c++) {
        acc[c] -= (int16_t)sums[c];
        sums[c] = (uint16_t)acc[c]; /* the sum of a row fits 16 bits, and so does the difference of what is before it */
    }
    sum_rows(acc, row, L->in_w, channels);
    const cortado_factor_t factor = cortado_factor(L->multiplier, L->shift);
    for (int32_t c = 0; c < channels; c++) {
        sums[c] = (uint16_t)((uint32_t)acc[c] - sums[c]);
        out[c] = (int8_t)cortado_clamp(cortado_scale(acc[c], factor) + L->out_offset, -128, 127);
    }
    *next = *next + 1 == L->rows ? 0 : *next + 1;
}
