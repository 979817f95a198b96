/* SPDX-License-Identifier: Apache-2.0
 *
 * Integers as 16-bit codes.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_round.h"

void cortado_quantize_s32_s16(const int32_t *in, int16_t *out, int32_t n, int32_t multiplier, int32_t shift)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_code_s16(cortado_rounded(in[i], multiplier, shift));
    }
}
