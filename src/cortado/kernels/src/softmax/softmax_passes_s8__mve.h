/* SPDX-License-Identifier: Apache-2.0
 *
 * The passes of softmax and of its logarithm over one row, with vector instructions. Internal. See
 * softmax_passes_s8__mve.S.
 */
#ifndef SOFTMAX_PASSES_S8__MVE_H
#define SOFTMAX_PASSES_S8__MVE_H

#include "cortado.h"

int32_t cortado_softmax_largest_s8__mve(const int8_t *in, int32_t n);
/* limits is the largest input and the last entry of the table. At most CORTADO_SOFTMAX_SUMMED values. */
int32_t cortado_softmax_sum_s8__mve(const int8_t *in, int32_t n, const int32_t *table, const int32_t limits[2]);
void cortado_softmax_outputs_s8__mve(const int8_t *in, int8_t *out, int32_t n, const int32_t *table,
                                     const int32_t factors[4]);
void cortado_softmax_logarithms_s8__mve(const int8_t *in, int8_t *out, int32_t n, const int32_t numbers[6]);

#endif /* SOFTMAX_PASSES_S8__MVE_H */
