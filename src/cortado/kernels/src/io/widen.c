/* SPDX-License-Identifier: Apache-2.0
 *
 * Integers of 8 or 16 bits as 32.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"

#include <string.h>

void cortado_widen(const int8_t *in, int32_t *out, int32_t n, int32_t bytes, int32_t sign)
{
    for (int32_t i = 0; i < n; i++) {
        int16_t half = in[i];
        if (bytes == 2) {
            (void)memcpy(&half, in + 2 * i, sizeof half);
        }
        out[i] = sign != 0 ? half : half & 0xFF;
    }
}
