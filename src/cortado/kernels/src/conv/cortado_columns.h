/* SPDX-License-Identifier: Apache-2.0
 *
 * One output row of a transposed convolution with groups, column by column. Internal.
 */
#ifndef CORTADO_COLUMNS_H
#define CORTADO_COLUMNS_H

#include "cortado.h"

/* Each column's pixels are made side by side, then moved apart. */
#define CORTADO_COLUMNS(L, layer_t, rows, out, scratch, y, row)                                                        \
    do {                                                                                                               \
        int8_t *const made = scratch;                                                                                  \
        const layer_t *const *column = (L)->column + ((y) & ((L)->phases - 1)) * (L)->columns;                         \
        const int32_t bytes = (L)->out_c, step = (L)->columns * bytes;                                                 \
        for (int32_t x = 0; x < (L)->columns; x++) {                                                                   \
            row(column[x], rows, made, made + (L)->made_bytes);                                                        \
            cortado_copy2d(made, bytes, (out) + x * bytes, step, bytes, column[x]->out_w);                             \
        }                                                                                                              \
    } while (0)

#endif /* CORTADO_COLUMNS_H */
