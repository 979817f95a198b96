/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons of integers.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_compare.h"

void cortado_compare_s32(const int32_t *a, const int32_t *b, int8_t *out, int32_t n, int32_t a_step, int32_t b_step,
                         int32_t accepts)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_accepted(a[i * a_step], b[i * b_step], accepts);
    }
}
