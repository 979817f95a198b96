/* SPDX-License-Identifier: Apache-2.0
 *
 * Four rows of one path of a gate with 4-bit weights and DSP instructions: see cortado_narrow.h.
 *
 * Tile: 4 products x 4 rows. Scratch: none.
 *
 * The stream: products, then the words of cortado_gate_rows.h. A halfword has a product of all rows, that of the first
 * in its lowest bits; those of products k, k + 2, k + 1, k + 3 follow one another. Zeros fill up the last four.
 */
#include "cortado_gates_narrow.h"

#if defined(__ARM_FEATURE_DSP)
#include "cortado_gate_rows.h"

/* Products are 2^12 times as large as they are: those of a row are the upper bits of a halfword. */
#define SUM_BITS 12
#define UPPER 0xF000F000u

#define ADD(sum, weights, left, codes, mask)                                                   \
    do {                                                                                       \
        uint32_t row_;                                                                         \
        __asm__("and %0, %2, %3, lsl #" #left "\n\tsmlad %1, %0, %4, %1"                     \
                : "=&r"(row_), "+r"(sum)                                                       \
                : "r"(mask), "r"(weights), "r"(codes));                                        \
    } while (0)

typedef struct {
    int32_t a, b, c, d;
} sums_t;

static inline sums_t add_four(sums_t s, int32_t codes, const int8_t *stream, uint32_t mask)
{
    const int32_t first = cortado_stream_word(stream);
    int32_t even, odd;
    __asm__("sxtb16 %0, %1" : "=r"(even) : "r"(codes));
    ADD(s.a, first, 12, even, mask);
    ADD(s.b, first, 8, even, mask);
    ADD(s.c, first, 4, even, mask);
    ADD(s.d, first, 0, even, mask);
    const int32_t second = cortado_stream_word(stream + 4);
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(codes));
    ADD(s.a, second, 12, odd, mask);
    ADD(s.b, second, 8, odd, mask);
    ADD(s.c, second, 4, odd, mask);
    ADD(s.d, second, 0, odd, mask);
    return s;
}

static inline const int8_t *add_products(const int8_t *x, const int8_t *stream, int32_t n, int32_t *sums)
{
    sums_t s = {0, 0, 0, 0};
    uint32_t mask = UPPER;
    __asm__("" : "+r"(mask)); /* in a register */
    for (const int8_t *const end = x + (n & ~3); x < end; x += 4, stream += 8) {
        s = add_four(s, cortado_load4(x), stream, mask);
    }
    if ((n & 3) != 0) {
        s = add_four(s, cortado_load_few(x, n & 3), stream, mask);
        stream += 8;
    }
    sums[0] = s.a >> SUM_BITS;
    sums[1] = s.b >> SUM_BITS;
    sums[2] = s.c >> SUM_BITS;
    sums[3] = s.d >> SUM_BITS;
    return stream;
}

const int8_t *cortado_gates_narrow_s8__dsp(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates)
{
    return cortado_gate_rows(cortado_narrow_products(x, stream, n, gates, add_products), gates);
}

const int8_t *cortado_gates_runs_s8__dsp(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates)
{
    return cortado_gate_rows(cortado_runs_products(x, stream, n, gates, add_products), gates);
}
#else
typedef int cortado_gates_narrow_needs_dsp; /* an empty translation unit is not C */
#endif
