/* SPDX-License-Identifier: Apache-2.0
 *
 * Four rows of one path of a gate with 4-bit weights, for recurrent layers on any core: see cortado_narrow.h.
 *
 * Tile: 4 products (with vectors 8) x 4 rows. Scratch: none.
 *
 * The stream: | products of a chunk 4 |, then of each chunk | a factor of each row 4 | its products, 8 bytes for every
 * four |, then | bias 4 | multiplier 4 | shift 4 | of each row. A halfword holds a product of all rows, that of the
 * first in its lowest bits; those of products k, k + 2, k + 1, k + 3 follow one another. Zeros fill up the last four.
 */
#include "cortado_math.h"
#include "cortado_narrow.h"

#define ROWS 4

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

#define SUM_BITS 0

static inline void add_eight(int16x8_t codes, const int8_t *stream, int32_t *sums)
{
    const int16x8_t all = vreinterpretq_s16_s8(vldrbq_s8(stream));
    sums[0] = vmladavaq_s16(sums[0], codes, vshrq_n_s16(vshlq_n_s16(all, 12), 12));
    sums[1] = vmladavaq_s16(sums[1], codes, vshrq_n_s16(vshlq_n_s16(all, 8), 12));
    sums[2] = vmladavaq_s16(sums[2], codes, vshrq_n_s16(vshlq_n_s16(all, 4), 12));
    sums[3] = vmladavaq_s16(sums[3], codes, vshrq_n_s16(all, 12));
}

/* Of the last eight, what is read behind the products counts nothing: it is multiplied by zeros. */
static inline void add_products(const int8_t *x, const int8_t *stream, int32_t n, int32_t *sums)
{
    static const uint16_t order[8] = {0, 2, 1, 3, 4, 6, 5, 7};
    const uint16x8_t lanes = vldrhq_u16(order);
    for (; n >= 8; n -= 8, x += 8, stream += 16) {
        add_eight(vldrbq_gather_offset_s16(x, lanes), stream, sums);
    }
    if (n > 0) {
        const mve_pred16_t left = vcmphiq_u16(vdupq_n_u16((uint16_t)n), lanes);
        add_eight(vldrbq_gather_offset_z_s16(x, lanes, left), stream, sums);
    }
}
#elif defined(__ARM_FEATURE_DSP)
/* Products are 2^12 times as large as they are: those of a row are the upper bits of a halfword. */
#define SUM_BITS 12

static inline int32_t add_pair(int32_t sum, uint32_t weights, int32_t codes)
{
    __asm__("smlad %0, %1, %2, %0" : "+r"(sum) : "r"(weights & 0xF000F000u), "r"(codes));
    return sum;
}

static inline void add_four(int32_t codes, const int8_t *stream, int32_t *sums)
{
    const uint32_t first = (uint32_t)cortado_load4(stream), second = (uint32_t)cortado_load4(stream + 4);
    int32_t even, odd;
    __asm__("sxtb16 %0, %1" : "=r"(even) : "r"(codes));
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(codes));
    sums[0] = add_pair(add_pair(sums[0], first << 12, even), second << 12, odd);
    sums[1] = add_pair(add_pair(sums[1], first << 8, even), second << 8, odd);
    sums[2] = add_pair(add_pair(sums[2], first << 4, even), second << 4, odd);
    sums[3] = add_pair(add_pair(sums[3], first, even), second, odd);
}

static inline void add_products(const int8_t *x, const int8_t *stream, int32_t n, int32_t *sums)
{
    for (; n >= 4; n -= 4, x += 4, stream += 8) {
        add_four(cortado_load4(x), stream, sums);
    }
    if (n > 0) {
        add_four(cortado_load_few(x, n), stream, sums);
    }
}
#else
#define SUM_BITS 0

static inline void add_products(const int8_t *x, const int8_t *stream, int32_t n, int32_t *sums)
{
    for (int32_t k = 0; k < n; k++) {
        const int8_t *const at = stream + 8 * (k >> 2) + 4 * (k & 1) + (k & 2);
        const int32_t low = at[0], high = at[1];
        sums[0] += x[k] * (((low & 15) ^ 8) - 8);
        sums[1] += x[k] * (low >> 4);
        sums[2] += x[k] * (((high & 15) ^ 8) - 8);
        sums[3] += x[k] * (high >> 4);
    }
}
#endif

const int8_t *cortado_gates_narrow_s8(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates)
{
    const int32_t chunk = cortado_load4(stream);
    stream += 4;
    gates[0] = gates[1] = gates[2] = gates[3] = 0;
    for (; n > 0; n -= chunk, x += chunk) {
        const int32_t count = cortado_min(n, chunk);
        int32_t sums[ROWS] = {0, 0, 0, 0};
        add_products(x, stream + ROWS, count, sums);
        for (int32_t i = 0; i < ROWS; i++) {
            gates[i] += (sums[i] >> SUM_BITS) * stream[i];
        }
        stream += ROWS + 8 * ((count + 3) >> 2);
    }
    for (int32_t i = 0; i < ROWS; i++, stream += 12) {
        gates[i] = cortado_requant(gates[i] + cortado_load4(stream), cortado_load4(stream + 4),
                                   cortado_load4(stream + 8));
    }
    return stream;
}
