/* SPDX-License-Identifier: Apache-2.0
 *
 * Integers to real numbers.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"

void cortado_dequantize_s8_f32(const int8_t *in, float *out, int32_t n, float scale, int32_t zero_point)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = (float)(in[i] - zero_point) * scale;
    }
}
