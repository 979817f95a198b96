/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and its logarithm in float32, over the channels of each pixel.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado_float.h"

static float largest_of(const float *in, int32_t channels)
{
    float largest = in[0];
    for (int32_t c = 1; c < channels; c++) {
        largest = in[c] > largest || in[c] != in[c] ? in[c] : largest;
    }
    return largest;
}

void cortado_softmax_f32(const float *in, float *out, int32_t pixels, int32_t channels)
{
    for (; pixels > 0; pixels--, in += channels, out += channels) {
        const float largest = largest_of(in, channels);
        float sum = 0.0f;
        for (int32_t c = 0; c < channels; c++) {
            out[c] = cortado_f32_exp(in[c] - largest);
            sum = sum + out[c];
        }
        for (int32_t c = 0; c < channels; c++) {
            out[c] = cortado_f32_canonical(out[c] / sum);
        }
    }
}

void cortado_log_softmax_f32(const float *in, float *out, int32_t pixels, int32_t channels)
{
    for (; pixels > 0; pixels--, in += channels, out += channels) {
        const float largest = largest_of(in, channels);
        float sum = 0.0f;
        for (int32_t c = 0; c < channels; c++) {
            sum = sum + cortado_f32_exp(in[c] - largest);
        }
        sum = cortado_f32_log(sum);
        const uint32_t before = cortado_one_nan();
        for (int32_t c = 0; c < channels; c++) {
            out[c] = cortado_result((in[c] - largest) - sum);
            CORTADO_STAY_A_LOOP;
        }
        cortado_any_nan(before);
    }
}
