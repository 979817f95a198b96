/* SPDX-License-Identifier: Apache-2.0
 *
 * One of two tensors, or of their single values, element by element: values of 1, 2 or 4 bytes.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"

#include <stddef.h>

static void where_8(const cortado_where_t *L, const int8_t *mask, const int8_t *a, const int8_t *b, int8_t *out,
                    int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = mask[i] != 0 ? a[i * L->a_step] : b[i * L->b_step];
    }
}

static void where_16(const cortado_where_t *L, const int8_t *mask, const int16_t *a, const int16_t *b, int16_t *out,
                     int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = mask[i] != 0 ? a[i * L->a_step] : b[i * L->b_step];
    }
}

static void where_32(const cortado_where_t *L, const int8_t *mask, const int32_t *a, const int32_t *b, int32_t *out,
                     int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = mask[i] != 0 ? a[i * L->a_step] : b[i * L->b_step];
    }
}

void cortado_where(const cortado_where_t *L, const int8_t *mask, const void *a, const void *b, void *out, int32_t n)
{
    const int8_t byte = (int8_t)L->number;
    const int16_t half = (int16_t)L->number;
    const void *number = L->bytes == 1 ? (const void *)&byte : L->bytes == 2 ? (const void *)&half : &L->number;
    a = a == NULL ? number : a;
    b = b == NULL ? number : b;
    if (L->bytes == 1) {
        where_8(L, mask, a, b, out, n);
    } else if (L->bytes == 2) {
        where_16(L, mask, a, b, out, n);
    } else {
        where_32(L, mask, a, b, out, n);
    }
}
