/* SPDX-License-Identifier: Apache-2.0
 *
 * Permutation, and any other strided read.
 *
 * Tile: 1 run of elements. Scratch: none.
 */
#include "cortado.h"
#include "cortado_copy.h"

static int8_t *read_run(const int8_t *in, int32_t stride, int32_t n, int8_t *out)
{
    if (stride == 1) {
        cortado_copy(out, in, (size_t)n);
        return out + n;
    }
    for (; n > 0; n--) {
        *out++ = *in;
        in += stride;
    }
    return out;
}

void cortado_transpose_s8(const cortado_transpose_t *L, const int8_t *in, int8_t *out)
{
    const int32_t inner = L->rank - 1;
    /* The two innermost dimensions are plain loops, the others count like an odometer. */
    const int32_t rows = inner > 0 ? L->shape[inner - 1] : 1, row_stride = inner > 0 ? L->stride[inner - 1] : 0;
    int32_t index[6] = {0}, offset = L->offset, axis;
    do {
        for (int32_t row = 0; row < rows; row++) {
            out = read_run(in + offset + row * row_stride, L->stride[inner], L->shape[inner], out);
        }
        for (axis = inner - 2; axis >= 0; axis--) {
            offset += L->stride[axis];
            if (++index[axis] < L->shape[axis]) {
                break;
            }
            offset -= L->stride[axis] * L->shape[axis];
            index[axis] = 0;
        }
    } while (axis >= 0);
}
