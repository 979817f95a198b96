/* SPDX-License-Identifier: Apache-2.0
 *
 * The values at computed positions of each pixel, each of several bytes.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_copy.h"
#include "cortado_math.h"

void cortado_pick_wide(const int8_t *in, const int32_t *at, int8_t *out, int32_t pixels, int32_t channels,
                       int32_t count, int32_t bytes)
{
    for (; pixels > 0; pixels--, in += channels * bytes) {
        for (int32_t i = 0; i < count; i++, out += bytes) {
            cortado_copy(out, in + cortado_clamp(*at++, 0, channels - 1) * bytes, (size_t)bytes);
        }
    }
}
