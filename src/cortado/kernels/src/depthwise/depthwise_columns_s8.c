/* SPDX-License-Identifier: Apache-2.0
 *
 * A depthwise transposed convolution: one output row.
 *
 * Tile: that of the function it is given. Scratch: the pixels of one column, and what that function needs.
 */
#include "cortado_columns.h"

void cortado_depthwise_columns_s8(const cortado_depthwise_columns_t *L, const int8_t *const rows[], int8_t *out,
                                  void *scratch, int32_t y, cortado_depthwise_columns_row_t row)
{
    CORTADO_COLUMNS(L, cortado_depthwise_t, rows, out, scratch, y, row);
}
