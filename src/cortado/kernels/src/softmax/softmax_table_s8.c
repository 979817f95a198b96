/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax with its exponentials in a table: differences of int8 values take at most 256 values.
 *
 * Tile: 4 elements with DSP instructions, then 1. Scratch: none.
 */
#include "cortado.h"
#include "cortado_softmax.h"

/* A row's table: its first entry is that of the largest value, and its last one that of all far below. */
typedef struct {
    const int32_t *table;
    int32_t largest, last;
} row_t;

static inline int32_t exponential(row_t row, int8_t value)
{
    return row.table[cortado_min(row.largest - value, row.last)];
}

#if defined(__ARM_FEATURE_DSP)
#include "cortado_dsp.h"

#define FOURS(n) ((n) & ~3)

/* The entries of four values, in a byte each. Differences are unsigned bytes. */
static inline uint32_t entries_of(row_t row, const int8_t *in)
{
    const uint32_t largest = (uint8_t)row.largest * 0x01010101u, last = (uint32_t)row.last * 0x01010101u;
    uint32_t entries, spare;
    __asm__("usub8 %0, %2, %3\n\tusub8 %1, %4, %0\n\tsel %0, %0, %4"
            : "=&r"(entries), "=&r"(spare)
            : "r"(largest), "r"(cortado_load4(in)), "r"(last)
            : "cc");
    return entries;
}

static inline int32_t entry(row_t row, uint32_t entries, uint32_t byte)
{
    return row.table[entries >> (8 * byte) & 255u];
}

static int32_t largest_of_fours(const int8_t *in, int32_t n)
{
    int32_t four = (int32_t)0x80808080;
    for (; n >= 4; n -= 4, in += 4) {
        four = cortado_max4(four, cortado_load4(in));
    }
    four = cortado_max4(four, four >> 16);
    return cortado_max((int8_t)four, (int8_t)(four >> 8));
}

static int32_t sum_of_fours(row_t row, const int8_t *in, int32_t n)
{
    int32_t sum = 0;
    for (; n >= 4; n -= 4, in += 4) {
        const uint32_t entries = entries_of(row, in);
        sum += cortado_softmax_term(entry(row, entries, 0));
        sum += cortado_softmax_term(entry(row, entries, 1));
        sum += cortado_softmax_term(entry(row, entries, 2));
        sum += cortado_softmax_term(entry(row, entries, 3));
    }
    return sum;
}

static inline uint32_t byte_of(int32_t value, int32_t scale, int32_t shift)
{
    uint32_t byte;
    __asm__("usat %0, #8, %1" : "=r"(byte) : "r"(cortado_softmax_byte(value, scale, shift)));
    return byte;
}

static void outputs_of_fours(row_t row, const int8_t *in, int8_t *out, int32_t n, int32_t scale, int32_t shift)
{
    for (; n >= 4; n -= 4, in += 4, out += 4) {
        const uint32_t entries = entries_of(row, in);
        uint32_t made = byte_of(entry(row, entries, 0), scale, shift);
        made |= byte_of(entry(row, entries, 1), scale, shift) << 8;
        made |= byte_of(entry(row, entries, 2), scale, shift) << 16;
        made |= byte_of(entry(row, entries, 3), scale, shift) << 24;
        cortado_store4(out, (int32_t)(made ^ 0x80808080u));
    }
}

#else
#define FOURS(n) 0
#define largest_of_fours(in, n) (-128)
#define sum_of_fours(row, in, n) 0
#define outputs_of_fours(row, in, out, n, scale, shift) ((void)0)
#endif

static int32_t largest_of(const int8_t *in, int32_t n)
{
    int32_t largest = largest_of_fours(in, n);
    for (int32_t i = FOURS(n); i < n; i++) {
        largest = cortado_max(largest, in[i]);
    }
    return largest;
}

static int32_t sum_of(row_t row, const int8_t *in, int32_t n)
{
    int32_t sum = sum_of_fours(row, in, n);
    for (int32_t i = FOURS(n); i < n; i++) {
        sum += cortado_softmax_term(exponential(row, in[i]));
    }
    return sum;
}

static int32_t sum_of_all(row_t row, const int8_t *in, int32_t n)
{
    int32_t sum = 0;
    for (; n > 0; n -= CORTADO_SOFTMAX_SUMMED, in += CORTADO_SOFTMAX_SUMMED) {
        sum += sum_of(row, in, cortado_min(n, CORTADO_SOFTMAX_SUMMED));
        sum = cortado_min(sum, CORTADO_SOFTMAX_LARGEST_SUM);
    }
    return sum;
}

void cortado_softmax_table_s8(const cortado_softmax_t *L, const int8_t *in, int8_t *out, int32_t rows, int32_t n)
{
    row_t row = {L->exp_table, 0, cortado_softmax_last(L->diff_min)};
    for (; rows > 0; rows--, in += n, out += n) {
        int32_t shift;
        row.largest = largest_of(in, n);
        const int32_t scale = cortado_softmax_scale(sum_of_all(row, in, n), &shift);
        outputs_of_fours(row, in, out, n, scale, shift);
        for (int32_t i = FOURS(n); i < n; i++) {
            out[i] = cortado_softmax_output(exponential(row, in[i]), scale, shift);
        }
    }
}
