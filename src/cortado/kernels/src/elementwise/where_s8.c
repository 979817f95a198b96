/* SPDX-License-Identifier: Apache-2.0
 *
 * One of two tensors, element by element.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"

void cortado_where_s8(const int8_t *mask, const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = mask[i] != 0 ? a[i] : b[i];
    }
}

void cortado_where_number_s8(const int8_t *mask, const int8_t *a, int8_t *out, int32_t n, int32_t number, int32_t taken)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = (mask[i] != 0) == taken ? (int8_t)number : a[i];
    }
}
