/* SPDX-License-Identifier: Apache-2.0
 *
 * Which channel of each pixel holds its largest 16-bit code, or its smallest, and this code.
 *
 * Tile: 1 pixel. Scratch: none.
 */
#include "cortado.h"

void cortado_argmax_s16(const int16_t *in, int32_t *out, int32_t pixels, int32_t channels, int32_t largest,
                       int16_t *values)
{
    const int32_t flip = largest != 0 ? 0 : -1; /* ~v is smaller for larger v */
    for (; pixels > 0; pixels--, in += channels) {
        int32_t best = 0;
        for (int32_t c = 1; c < channels; c++) {
            best = (in[c] ^ flip) > (in[best] ^ flip) ? c : best;
        }
        if (out != NULL) {
            *out++ = best;
        }
        if (values != NULL) {
            *values++ = in[best];
        }
    }
}
