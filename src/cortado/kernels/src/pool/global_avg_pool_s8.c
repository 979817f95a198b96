/* SPDX-License-Identifier: Apache-2.0
 *
 * The average over one window, an input row per call.
 *
 * Tile: that of the functions it is given. Scratch: a 32-bit sum per channel.
 */
#include "cortado.h"
#include "cortado_math.h"

void cortado_global_avg_pool_s8(const cortado_pool2d_t *L, const int8_t *row, int8_t *out, void *scratch, int32_t y,
                                cortado_sum_rows_t sum_rows, cortado_means_t means)
{
    int32_t *acc = (int32_t *)scratch;
    if (y == 0) {
        for (int32_t c = 0; c < L->channels; c++) {
            acc[c] = 0;
            CORTADO_STAY_A_LOOP;
        }
    }
    sum_rows(acc, row, L->kernel_w, L->channels);
    if (y == L->kernel_h - 1) {
        means(acc, out, L->channels, L->kernel_h * L->kernel_w);
    }
}
