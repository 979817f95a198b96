/* SPDX-License-Identifier: Apache-2.0
 *
 * Constant padding of any dimensions, of values of 2 or 4 bytes.
 *
 * Tile: 1 run of elements. Scratch: none.
 */
#include "cortado.h"
#include "cortado_copy.h"

static int8_t *fill(int8_t *out, int32_t value, int32_t n, int32_t bytes)
{
    if (bytes == 2) {
        int16_t *to = (int16_t *)(void *)out;
        for (int32_t i = 0; i < n; i++) {
            to[i] = (int16_t)value;
        }
    } else {
        int32_t *to = (int32_t *)(void *)out;
        for (int32_t i = 0; i < n; i++) {
            to[i] = value;
        }
    }
    return out + n * bytes;
}

void cortado_pad_wide(const cortado_pad_t *L, const void *values, void *padded, int32_t bytes)
{
    const int32_t inner = L->rank - 1;
    const int32_t before = L->before[inner], width = L->shape[inner], after = L->after[inner];
    const int8_t *in = values;
    int8_t *out = padded;
    int32_t index[6] = {0}, axis;
    do {
        int inside = in != NULL;
        for (axis = 0; axis < inner; axis++) {
            const int32_t at = index[axis] - L->before[axis];
            inside = inside && at >= 0 && at < L->shape[axis];
        }
        if (inside != 0) {
            out = fill(out, L->value, before, bytes);
            cortado_copy(out, in, (size_t)(width * bytes));
            in += width * bytes;
            out = fill(out + width * bytes, L->value, after, bytes);
        } else {
            out = fill(out, L->value, before + width + after, bytes);
        }
        for (axis = inner - 1; axis >= 0; axis--) {
            if (++index[axis] < L->before[axis] + L->shape[axis] + L->after[axis]) {
                break;
            }
            index[axis] = 0;
        }
    } while (axis >= 0);
}
