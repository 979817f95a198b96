/* SPDX-License-Identifier: Apache-2.0
 *
 * Bilinear resizing with vector instructions: one output row, or the whole tensor.
 *
 * Tile: 1 pixel x 4 channels. Scratch: none.
 */
#include "cortado_bilinear.h"

#if defined(__ARM_FEATURE_MVE)

void cortado_bilinear_row_s8__mve(const cortado_bilinear_t *L, const int8_t *top, const int8_t *bottom, int32_t down,
                                  int8_t *out);

void cortado_upsample_bilinear_s8__mve(const cortado_bilinear_t *L, const int8_t *const rows[], int8_t *out, int32_t y)
{
    cortado_bilinear_one(L, rows, out, y, cortado_bilinear_row_s8__mve);
}

void cortado_upsample_bilinear_all_s8__mve(const cortado_bilinear_t *L, const int8_t *in, int8_t *out)
{
    cortado_bilinear_all(L, in, out, cortado_bilinear_row_s8__mve);
}
#else
typedef int cortado_upsample_bilinear_needs_mve; /* an empty translation unit is not C */
#endif
