/* SPDX-License-Identifier: Apache-2.0
 *
 * Permutation, and any other strided read, of values of 2 or 4 bytes.
 *
 * Tile: 1 run of elements. Scratch: none.
 */
#include "cortado.h"
#include "cortado_copy.h"
#include "cortado_planes.h"

static int16_t *read_halves(const int16_t *in, int32_t stride, int32_t n, int16_t *out)
{
    for (; n > 0; n--) {
        *out++ = *in;
        in += stride;
    }
    return out;
}

static int32_t *read_words(const int32_t *in, int32_t stride, int32_t n, int32_t *out)
{
    for (; n > 0; n--) {
        *out++ = *in;
        in += stride;
    }
    return out;
}

static void *read_run(const void *in, int32_t stride, int32_t n, void *out, int32_t bytes)
{
    if (stride == 1) {
        cortado_copy(out, in, (size_t)(n * bytes));
        return (int8_t *)out + n * bytes;
    }
    return bytes == 2 ? (void *)read_halves(in, stride, n, out) : (void *)read_words(in, stride, n, out);
}

void cortado_transpose_wide(const cortado_transpose_t *L, const void *in, void *out, int32_t bytes)
{
    const int32_t inner = L->rank - 1;
    const int32_t rows = inner > 0 ? L->shape[inner - 1] : 1, row_stride = inner > 0 ? L->stride[inner - 1] : 0;
    int32_t index[6] = {0}, offset = L->offset;
    do {
        for (int32_t row = 0; row < rows; row++) {
            const void *from = (const int8_t *)in + (offset + row * row_stride) * bytes;
            out = read_run(from, L->stride[inner], L->shape[inner], out, bytes);
        }
    } while (cortado_next_plane(L, index, &offset) != 0);
}
