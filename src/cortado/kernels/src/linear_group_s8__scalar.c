/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_group_s8__scalar_dsp.S in C, for machines that it has no code for: the same sums from the same stream.
 *
 * Tile: 1 pixel x 4 channels, with CORTADO_SMALL_CORE 3. Scratch: none.
 */
#include "linear_group_s8__scalar_dsp.h"

#if !defined(__thumb__)

const int8_t *CORTADO_ISA(cortado_linear_group_s8)(const int8_t *x, const int8_t *weights, int32_t n, int32_t *sums)
{
    for (int32_t k = 0; k < n; k++) {
        for (int32_t i = 0; i < CORTADO_LINEAR_CHANNELS; i++) {
            sums[i] += x[k] * weights[CORTADO_SMALL_CORE ? i * n + k : k * CORTADO_LINEAR_CHANNELS + i];
        }
    }
    return weights + n * CORTADO_LINEAR_CHANNELS;
}

#else
typedef int cortado_linear_group_is_assembly; /* an empty translation unit is not C */
#endif
