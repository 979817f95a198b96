/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of a camera or a converter to integers of a network. The 256 codes of a channel are made once: a whole picture
 * in real numbers would need four times its bytes, and a core without a floating-point unit a long time.
 *
 * Tile: 1 element. Scratch: none (256 bytes of stack).
 */
#include "cortado.h"

void cortado_quantize_u8_s8(const uint8_t *in, int8_t *out, int32_t n, int32_t channels, const float *gain,
                            const float *offset, float scale, int32_t zero_point)
{
    int8_t codes[256];
    for (int32_t channel = 0; channel < channels; channel++) {
        for (int32_t byte = 0; byte < 256; byte++) {
            const float value = (float)byte * gain[channel] + offset[channel];
            cortado_quantize_f32_s8(&value, &codes[byte], 1, scale, zero_point);
        }
        for (int32_t i = channel; i < n; i += channels) {
            out[i] = codes[in[i]];
        }
    }
}
