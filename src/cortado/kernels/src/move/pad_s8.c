/* SPDX-License-Identifier: Apache-2.0
 *
 * Constant padding of any dimensions.
 *
 * Tile: 1 run of bytes. Scratch: none.
 */
#include "cortado.h"
#include "cortado_copy.h"

void cortado_pad_s8(const cortado_pad_t *L, const int8_t *in, int8_t *out)
{
    const int32_t inner = L->rank - 1;
    const size_t before = (size_t)L->before[inner], width = (size_t)L->shape[inner], after = (size_t)L->after[inner];
    int32_t index[6] = {0}, axis;
    do {
        int inside = in != NULL;
        for (axis = 0; axis < inner; axis++) {
            const int32_t at = index[axis] - L->before[axis];
            inside = inside && at >= 0 && at < L->shape[axis];
        }
        if (inside != 0) {
            (void)memset(out, L->value, before);
            cortado_copy(out + before, in, width);
            (void)memset(out + before + width, L->value, after);
            in += width;
        } else {
            (void)memset(out, L->value, before + width + after);
        }
        out += before + width + after;
        for (axis = inner - 1; axis >= 0; axis--) {
            if (++index[axis] < L->before[axis] + L->shape[axis] + L->after[axis]) {
                break;
            }
            index[axis] = 0;
        }
    } while (axis >= 0);
}
