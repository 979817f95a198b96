/* SPDX-License-Identifier: Apache-2.0
 *
 * The larger of each two values.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

void cortado_maximum_s8(const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = (int8_t)cortado_max(a[i], b[i]);
    }
}
