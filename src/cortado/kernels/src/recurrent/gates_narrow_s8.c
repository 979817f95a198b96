/* SPDX-License-Identifier: Apache-2.0
 *
 * Four rows of one path of a gate with 4-bit weights, for recurrent layers on any core: see cortado_narrow.h.
 *
 * Tile: 2 products x 4 rows. Scratch: none.
 *
 * The stream: products, then | bias 4 | multiplier 4 | shift 4 | of each row. A word has two products of all rows, a to
 * d, each with 8 more than the weight; from its lowest bits on those of a, b, a, b, c, d, c, d. Two rows so lie in the
 * halves of a word, and one multiplication serves both.
 */
#include "cortado_gates_narrow.h"

#define LANES 0x000F000F /* 15 * 128 of 16 products fit a lane */

/* Splits both lanes into rows and subtracts the offset of 8 that each weight has. */
static inline void collect(int32_t lanes, int32_t more, int32_t *lower, int32_t *upper)
{
    const int32_t low = (int16_t)lanes;
    *lower += low - more;
    *upper += ((lanes - low) >> 16) - more;
}

typedef struct {
    int32_t ac, bd, total;
} lanes_t;

/* One product of each row, from the lowest bits of a word on. */
static inline lanes_t add(lanes_t s, int32_t x, int32_t word)
{
    s.ac += x * (word & LANES);
    s.bd += x * (word >> 4 & LANES);
    s.total += x;
    return s;
}

static const int8_t *add_products(const int8_t *x, const int8_t *stream, int32_t n, int32_t *sums)
{
    sums[0] = sums[1] = sums[2] = sums[3] = 0;
    for (; n > 0; n -= 16) {
        const int32_t count = cortado_min(n, 16);
        lanes_t s = {0, 0, 0};
        for (const int8_t *const end = x + (count & ~1); x != end; x += 2, stream += 4) {
            const int32_t word = cortado_stream_word(stream);
            s = add(s, x[0], word);
            s = add(s, x[1], word >> 8);
        }
        if ((count & 1) != 0) {
            s = add(s, *x, cortado_stream_word(stream));
            stream += 4;
        }
        collect(s.ac, 8 * s.total, &sums[0], &sums[2]);
        collect(s.bd, 8 * s.total, &sums[1], &sums[3]);
    }
    return stream;
}

static const int8_t *rows(const int8_t *stream, int32_t *gates)
{
    for (int32_t i = 0; i < CORTADO_NARROW_ROWS; i++, stream += 12) {
        gates[i] = cortado_requant(gates[i] + cortado_stream_word(stream), cortado_stream_word(stream + 4),
                                   cortado_stream_word(stream + 8));
    }
    return stream;
}

const int8_t *cortado_gates_narrow_s8(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates)
{
    return rows(cortado_narrow_products(x, stream, n, gates, add_products), gates);
}

const int8_t *cortado_gates_runs_s8(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates)
{
    return rows(cortado_runs_products(x, stream, n, gates, add_products), gates);
}
