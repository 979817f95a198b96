/* SPDX-License-Identifier: Apache-2.0
 *
 * The codes at computed positions of each pixel.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

void cortado_pick_s8(const int8_t *in, const int32_t *at, int8_t *out, int32_t pixels, int32_t channels, int32_t count)
{
    for (; pixels > 0; pixels--, in += channels) {
        for (int32_t i = 0; i < count; i++) {
            *out++ = in[cortado_clamp(*at++, 0, channels - 1)];
        }
    }
}
