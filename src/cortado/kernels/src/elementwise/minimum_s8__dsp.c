/* SPDX-License-Identifier: Apache-2.0
 *
 * The smaller of each two values, four at a time with DSP instructions.
 *
 * Tile: 4 elements. Scratch: none.
 */
#include "cortado.h"

#if defined(__ARM_FEATURE_DSP)
#include "cortado_dsp.h"

void cortado_minimum_s8__dsp(const int8_t *a, const int8_t *b, int8_t *out, int32_t n)
{
    for (; n >= 4; n -= 4, a += 4, b += 4, out += 4) {
        cortado_store4(out, cortado_min4(cortado_load4(a), cortado_load4(b)));
    }
    for (int32_t i = 0; i < n; i++) {
        out[i] = (int8_t)cortado_min(a[i], b[i]);
    }
}
#else
typedef int cortado_minimum_needs_dsp; /* an empty translation unit is not C */
#endif
