/* SPDX-License-Identifier: Apache-2.0
 *
 * A function of 16-bit codes: 513 values, 128 codes apart, and straight lines between them.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"

void cortado_table_s16(const int16_t table[513], const int16_t *in, int16_t *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t x = in[i] + 32768;
        const int16_t *at = table + (x >> 7);
        out[i] = (int16_t)(at[0] + (((at[1] - at[0]) * (x & 127) + 64) >> 7));
    }
}
