/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of linear layers on cores without vector instructions: some output channels of one pixel, straight
 * from the input. Internal. The stream is described in linear_group_s8__scalar_dsp.S.
 */
#ifndef LINEAR_GROUP_S8__SCALAR_DSP_H
#define LINEAR_GROUP_S8__SCALAR_DSP_H

/* Members of cortado_linear_groups_t, for the assembly. */
#define GROUPS_STREAM 0
#define GROUPS_DEPTH 4
#define GROUPS_CHANNELS 8
#define GROUPS_OFFSET 12 /* low and high are read with it */

#if !defined(__ASSEMBLER__)
#include "cortado.h"
#include "cortado_math.h"

#define CORTADO_LINEAR_CHANNELS (CORTADO_SMALL_CORE ? 3 : 4)

/* Adds n > 0 products (n a multiple of 4 on DSP cores) to each sum; returns the weights after them. */
const int8_t *CORTADO_ISA(cortado_linear_group_s8)(const int8_t *x, const int8_t *weights, int32_t n, int32_t *sums);

/* On small cores: a whole layer, of which all outputs of one pixel are made. */
typedef struct {
    const int8_t *stream;
    int32_t depth, channels;
    int32_t offset, low, high;
} cortado_linear_groups_t;

CORTADO_AT(cortado_linear_groups_t, stream, GROUPS_STREAM);
CORTADO_AT(cortado_linear_groups_t, depth, GROUPS_DEPTH);
CORTADO_AT(cortado_linear_groups_t, channels, GROUPS_CHANNELS);
CORTADO_AT(cortado_linear_groups_t, offset, GROUPS_OFFSET);
CORTADO_AT(cortado_linear_groups_t, low, GROUPS_OFFSET + 4);
CORTADO_AT(cortado_linear_groups_t, high, GROUPS_OFFSET + 8);

void CORTADO_ISA(cortado_linear_groups_s8)(const cortado_linear_groups_t *G, const int8_t *x, int8_t *out);

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

#endif
#endif /* LINEAR_GROUP_S8__SCALAR_DSP_H */
