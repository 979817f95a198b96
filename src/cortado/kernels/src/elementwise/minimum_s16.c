/* SPDX-License-Identifier: Apache-2.0
 *
 * The smaller or the larger of two 16-bit codes.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

void cortado_minimum_s16(const int16_t *a, const int16_t *b, int16_t *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = (int16_t)cortado_min(a[i], b[i]);
    }
}

void cortado_maximum_s16(const int16_t *a, const int16_t *b, int16_t *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = (int16_t)cortado_max(a[i], b[i]);
    }
}
