/* SPDX-License-Identifier: Apache-2.0
 *
 * The sums of all gates of a recurrent layer in float32, of one path, whose weights are codes of 8 bits: a linear
 * layer.
 *
 * Tile: that of conv1x1_codes_f32__dsp. Scratch: none.
 */
#include "cortado_float.h"

#if defined(__ARM_FEATURE_DSP)
void cortado_gates_codes_f32__dsp(const void *path, const float *in, float *out, int32_t steps)
{
    cortado_conv1x1_codes_f32__dsp(path, in, out, steps);
}
#else
typedef int cortado_gates_codes_f32_needs_dsp; /* an empty translation unit is not C */
#endif
