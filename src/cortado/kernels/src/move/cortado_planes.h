/* SPDX-License-Identifier: Apache-2.0
 *
 * A strided read by planes, which are its two innermost dimensions. Internal, for C and assembly alike.
 */
#ifndef CORTADO_PLANES_H
#define CORTADO_PLANES_H

/* cortado_plane_t: planes_s8__mve.S reads all six words at once. */
#define CORTADO_PLANE_LINES 0

#if !defined(__ASSEMBLER__)
#include "cortado.h"

/* Lines of so many bytes: how far the next line is, and the next byte of a line. Lines are the rows of a plane, which
 * may be copied whole, or, where those are shorter, its columns. */
typedef struct {
    int32_t lines, line_in, line_out;
    int32_t bytes, byte_in, byte_out;
    int32_t copied, size;
} cortado_plane_t;

CORTADO_AT(cortado_plane_t, lines, CORTADO_PLANE_LINES);
CORTADO_AT(cortado_plane_t, line_in, CORTADO_PLANE_LINES + 4);
CORTADO_AT(cortado_plane_t, line_out, CORTADO_PLANE_LINES + 8);
CORTADO_AT(cortado_plane_t, bytes, CORTADO_PLANE_LINES + 12);
CORTADO_AT(cortado_plane_t, byte_in, CORTADO_PLANE_LINES + 16);
CORTADO_AT(cortado_plane_t, byte_out, CORTADO_PLANE_LINES + 20);

static inline cortado_plane_t cortado_plane_of(const cortado_transpose_t *L)
{
    const int32_t inner = L->rank - 1;
    const int32_t rows = inner > 0 ? L->shape[inner - 1] : 1, row_stride = inner > 0 ? L->stride[inner - 1] : 0;
    const int32_t columns = L->shape[inner], stride = L->stride[inner];
    const int32_t copied = stride == 1 && columns >= 8; /* a call for fewer bytes does not pay */
    const cortado_plane_t by_row = {rows, row_stride, columns, columns, stride, 1, copied, rows * columns};
    const cortado_plane_t by_column = {columns, stride, 1, rows, row_stride, columns, 0, rows * columns};
    return rows > columns && copied == 0 ? by_column : by_row;
}

/* Whether there is a plane behind this one, and the offset of it: the outer dimensions count like an odometer. */
static inline int32_t cortado_next_plane(const cortado_transpose_t *L, int32_t index[6], int32_t *offset)
{
    for (int32_t axis = L->rank - 3; axis >= 0; axis--) {
        *offset += L->stride[axis];
        if (++index[axis] < L->shape[axis]) {
            return 1;
        }
        *offset -= L->stride[axis] * L->shape[axis];
        index[axis] = 0;
    }
    return 0;
}

void cortado_plane_s8__mve(const cortado_plane_t *P, const int8_t *in, int8_t *out);

#endif
#endif /* CORTADO_PLANES_H */
