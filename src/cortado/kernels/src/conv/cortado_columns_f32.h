/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns of a window that are in the image. Internal.
 */
#ifndef CORTADO_COLUMNS_F32_H
#define CORTADO_COLUMNS_F32_H

#include "cortado_math.h"

/* From `first` to before `end`, of a window whose first column would be `left`. */
typedef struct {
    int32_t left, first, end;
} cortado_columns_f32_t;

static inline cortado_columns_f32_t cortado_columns_f32(int32_t left, int32_t kernel_w, int32_t dilation_w,
                                                        int32_t in_w)
{
    cortado_columns_f32_t inside = {left, 0, kernel_w};
    while (inside.first < kernel_w && left + inside.first * dilation_w < 0) {
        inside.first++;
    }
    while (inside.end > inside.first && left + (inside.end - 1) * dilation_w >= in_w) {
        inside.end--;
    }
    return inside;
}

#endif /* CORTADO_COLUMNS_F32_H */
