/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of 8 or 16 bits, with a sign or without, as 16-bit codes, less an offset.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

void cortado_samples_s16(const cortado_samples_t *L, const int8_t *in, int16_t *out, int32_t pixels)
{
    const int16_t *wide = (const int16_t *)(const void *)in;
    for (int32_t i = 0; i < pixels * L->channels; i++) {
        const int32_t v = L->bytes == 2 ? wide[i] : L->sign ? in[i] : (uint8_t)in[i];
        out[i] = (int16_t)cortado_clamp(v - L->offset, -32768, 32767);
    }
}
