/* SPDX-License-Identifier: Apache-2.0
 *
 * The mean of 16-bit codes over an image or its upper rows in a scale of its own, an input row per call.
 *
 * Tile: 1 channel. Scratch: a 32-bit sum per channel.
 */
#include "cortado_wide.h"

void cortado_global_mean_s16(const cortado_global_mean_t *L, const int16_t *row, int16_t *out, void *scratch, int32_t y)
{
    int32_t *acc = (int32_t *)scratch;
    for (int32_t c = 0; c < L->channels; c++) {
        const int16_t *p = row + c;
        int32_t sum = y == 0 ? 0 : acc[c];
        for (int32_t left = L->in_w; left > 0; left--, p += L->channels) {
            sum += *p;
        }
        acc[c] = sum;
        if (y == L->rows - 1) {
            out[c] = (int16_t)cortado_clamp(cortado_requant(sum, L->multiplier, L->shift), -32768, 32767);
        }
    }
}
