/* SPDX-License-Identifier: Apache-2.0
 *
 * A function of 16-bit codes that jumps or is steep: straight lines between 513 values, 128 codes apart, and the 128
 * values themselves where a line would be too far off.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"

void cortado_patched_s16(const cortado_patched_s16_t *L, const int16_t *in, int16_t *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t x = in[i] + 32768;
        const int32_t part = L->parts[x >> 7], beyond = x & 127;
        if (part != 0) {
            out[i] = L->exact[(part - 1) * 128 + beyond];
        } else {
            const int16_t *at = L->table + (x >> 7);
            out[i] = (int16_t)(at[0] + (((at[1] - at[0]) * beyond + 64) >> 7));
        }
    }
}
