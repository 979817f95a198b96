/* SPDX-License-Identifier: Apache-2.0
 *
 * Four rows of one path of a gate with 4-bit weights and vector instructions: see cortado_narrow.h.
 *
 * Tile: 16 products x 4 rows. Scratch: none.
 *
 * The stream: products, then the words of cortado_gate_rows.h. Of every sixteen products 16 bytes a + 16 * b for the
 * first two rows, then 16 for the other two. Zeros fill up the last sixteen.
 */
#include "cortado_gates_narrow.h"

#if defined(__ARM_FEATURE_MVE)
#include "cortado_gate_rows.h"

#include <arm_mve.h>

static inline const int8_t *add_products(const int8_t *x, const int8_t *stream, int32_t n, int32_t *sums)
{
    int32_t a = 0, ab = 0, c = 0, cd = 0;
    for (; n > 0; n -= 16, x += 16, stream += 32) {
        const int8x16_t codes = vldrbq_z_s8(x, vctp8q((uint32_t)n));
        const int8x16_t first = vldrbq_s8(stream), second = vldrbq_s8(stream + 16);
        a = vmladavaq_s8(a, codes, vshrq_n_s8(vshlq_n_s8(first, 4), 4));
        ab = vmladavaq_s8(ab, codes, first);
        c = vmladavaq_s8(c, codes, vshrq_n_s8(vshlq_n_s8(second, 4), 4));
        cd = vmladavaq_s8(cd, codes, second);
    }
    sums[0] = a;
    sums[1] = (ab - a) >> 4;
    sums[2] = c;
    sums[3] = (cd - c) >> 4;
    return stream;
}

const int8_t *cortado_gates_narrow_s8__mve(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates)
{
    return cortado_gate_rows(cortado_narrow_products(x, stream, n, gates, add_products), gates);
}

const int8_t *cortado_gates_runs_s8__mve(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates)
{
    return cortado_gate_rows(cortado_runs_products(x, stream, n, gates, add_products), gates);
}
#else
typedef int cortado_gates_narrow_needs_mve; /* an empty translation unit is not C */
#endif
