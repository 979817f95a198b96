/* SPDX-License-Identifier: Apache-2.0
 *
 * Running sums along rows.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

void cortado_cumsum_s8(const cortado_cumsum_t *L, const int8_t *in, int8_t *out, int32_t rows)
{
    for (; rows > 0; rows--) {
        int32_t sum = 0;
        for (int32_t i = 0; i < L->length; i++) {
            sum += *in++ - L->in_zero;
            const int32_t scaled = cortado_requant(cortado_shl(sum, L->left_shift), L->out_multiplier, L->out_shift);
            *out++ = (int8_t)cortado_clamp(scaled + L->out_zero, -128, 127);
        }
    }
}
