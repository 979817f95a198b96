/* SPDX-License-Identifier: Apache-2.0
 *
 * Real numbers to integers of 16 bits.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

void cortado_quantize_f32_s16(const float *in, int16_t *out, int32_t n, float scale, int32_t zero_point)
{
    const float inverse = 1.0f / scale;
    for (int32_t i = 0; i < n; i++) {
        float v = in[i] * inverse;
        /* Beyond +-65536 the result saturates whatever the zero point; NaN fails both comparisons and becomes 0. */
        v = v > -65536.0f ? (v < 65536.0f ? v : 65536.0f) : (v <= -65536.0f ? -65536.0f : 0.0f);
        /* Adding 1.5 * 2^23 leaves no fraction bits: the sum is rounded to nearest, ties to even. */
        float shifted = v + 12582912.0f;
        int32_t bits;
        (void)memcpy(&bits, &shifted, sizeof bits);
        out[i] = (int16_t)cortado_clamp(bits - 0x4B400000 + zero_point, -32768, 32767);
    }
}
