/* SPDX-License-Identifier: Apache-2.0
 *
 * Running sums of 16-bit codes along rows.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_round.h"

void cortado_cumsum_s16(const cortado_cumsum_t *L, const int16_t *in, int16_t *out, int32_t rows)
{
    for (; rows > 0; rows--) {
        int32_t sum = 0;
        for (int32_t i = 0; i < L->length; i++) {
            sum += *in++;
            *out++ = cortado_code_s16(cortado_rounded(sum, L->out_multiplier, L->out_shift));
        }
    }
}
