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

/* The products of one group; returns the stream after them. */
static inline const int8_t *cortado_group_products(const int8_t *x, const int8_t *stream, int32_t n, int32_t *sums)
{
#if defined(__ARM_FEATURE_DSP) && !CORTADO_SMALL_CORE
    const int32_t whole = n & ~3;
    if (whole > 0) {
        stream = CORTADO_ISA(cortado_linear_group_s8)(x, stream, whole, sums);
    }
    if (whole != n) { /* the last few, without reading past the input */
        const int32_t last = cortado_load_few(x + whole, n - whole);
        stream = CORTADO_ISA(cortado_linear_group_s8)((const int8_t *)&last, stream, 4, sums);
    }
    return stream;
#else
    return CORTADO_ISA(cortado_linear_group_s8)(x, stream, n, sums);
#endif
}

#endif /* LINEAR_GROUP_S8__SCALAR_DSP_H */
