/* SPDX-License-Identifier: Apache-2.0
 *
 * A function of 16-bit codes that has few values, each of them over a run of codes: which run, by halving.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"

void cortado_steps_s16(const cortado_steps_s16_t *L, const int16_t *in, int8_t *out, int32_t n, int32_t bytes)
{
    int16_t *wide = (int16_t *)(void *)out;
    for (int32_t i = 0; i < n; i++) {
        int32_t low = 0, high = L->runs - 1; /* the run is one of low .. high */
        while (low < high) {
            const int32_t middle = (low + high) >> 1;
            if (in[i] > L->ends[middle]) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if (bytes == 2) {
            wide[i] = L->values[low];
        } else {
            out[i] = (int8_t)L->values[low];
        }
    }
}
