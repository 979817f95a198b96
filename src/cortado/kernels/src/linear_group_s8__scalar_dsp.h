/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of linear layers on cores without vector instructions: some output channels of one pixel, straight
 * from the input. Internal. The stream is described in linear_group_s8__scalar_dsp.S.
 */
#ifndef LINEAR_GROUP_S8__SCALAR_DSP_H
#define LINEAR_GROUP_S8__SCALAR_DSP_H

#include "cortado.h"
#include "cortado_math.h"

#if CORTADO_SMALL_CORE
#define CORTADO_LINEAR_CHANNELS 3
#else
#define CORTADO_LINEAR_CHANNELS 4
#endif

/* Adds n > 0 products (n a multiple of 4 on DSP cores) to each sum; returns the weights after them. */
const int8_t *CORTADO_ISA(cortado_linear_group_s8)(const int8_t *x, const int8_t *weights, int32_t n, int32_t *sums);

#endif /* LINEAR_GROUP_S8__SCALAR_DSP_H */
