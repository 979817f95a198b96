/* SPDX-License-Identifier: Apache-2.0
 *
 * Product of two computed matrices with DSP instructions: see matmul_rows_s8.h.
 *
 * Tile: 2 rows x 2 columns. Scratch: a 32-bit sum for each column.
 */
#include "matmul_rows_s8.h"

#if defined(__ARM_FEATURE_DSP)
#include "cortado_matmul.h"

void cortado_batch_matmul_s8__dsp(const cortado_batch_matmul_t *L, const int8_t *lhs, const int8_t *rhs, int8_t *out,
                                  void *scratch)
{
    cortado_matmul(L, lhs, rhs, out, scratch, cortado_matmul_rows_s8__dsp);
}
#else
typedef int cortado_batch_matmul_needs_dsp; /* an empty translation unit is not C */
#endif
