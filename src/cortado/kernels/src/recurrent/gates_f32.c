/* SPDX-License-Identifier: Apache-2.0
 *
 * The sums of all gates of a recurrent layer in float32, of one path: a linear layer.
 *
 * Tile: that of conv1x1_f32. Scratch: none.
 */
#include "cortado_float.h"

void cortado_gates_f32(const void *path, const float *in, float *out, int32_t steps)
{
    cortado_conv1x1_f32(path, in, out, steps);
}
