/* SPDX-License-Identifier: Apache-2.0
 *
 * Logarithm of softmax of 16-bit codes, over all of a row or over what a mask keeps of it.
 *
 * Tile: 1 row. Scratch: none.
 */
#include "cortado_powers.h"

#define LOG_BITS 20

/* Base-2 logarithm with 20 fractional bits of sum / 2^bits, which is at least 1: each squaring of the mantissa shows a
 * bit. */
static int32_t log2_of_sum(uint32_t sum, int32_t bits)
{
    int32_t result = 31 - bits;
    for (; (sum & 0x80000000u) == 0; sum <<= 1) { /* [1, 2) with 31 fractional bits */
        result--;
    }
    for (int i = 0; i < LOG_BITS; i++) {
        const uint64_t square = ((uint64_t)sum * sum) >> 31;
        const uint32_t carry = (uint32_t)(square >> 32);
        sum = (uint32_t)(square >> carry);
        result = result * 2 + (int32_t)carry;
    }
    return result;
}

static inline int32_t keeps(const int8_t *kept, int32_t i) { return kept == NULL || kept[i] != 0; }

/* -(y + logarithm) in steps of the output. */
static inline int16_t code(const cortado_log_softmax_s16_t *L, int32_t y, int32_t logarithm)
{
    const int64_t bits = (int64_t)y * (1 << (LOG_BITS - 16)) + logarithm; /* 36 of them at most */
    const int64_t v = (bits * L->out_multiplier + ((int64_t)1 << (L->out_right - 1))) >> L->out_right;
    return (int16_t)(v > 32768 ? -32768 : -v);
}

static void logarithms(const cortado_log_softmax_s16_t *L, const int8_t *kept, const int16_t *in, int16_t *out)
{
    const cortado_softmax_s16_t row = {L->length, L->multiplier, L->shift, L->bits, L->powers};
    int32_t largest = -32768, some = 0;
    uint32_t sum = 0;
    for (int32_t i = 0; i < L->length; i++) {
        largest = keeps(kept, i) ? cortado_max(largest, in[i]) : largest;
        some |= keeps(kept, i);
    }
    for (int32_t i = 0; i < L->length; i++) {
        sum += keeps(kept, i) ? cortado_power(&row, cortado_distance(&row, largest - in[i])) : 0;
    }
    const int32_t logarithm = some ? log2_of_sum(sum, L->bits) : 0;
    for (int32_t i = 0; i < L->length; i++) {
        out[i] = keeps(kept, i) ? code(L, cortado_distance(&row, largest - in[i]), logarithm) : -32768;
    }
}

void cortado_log_softmax_s16(const cortado_log_softmax_s16_t *L, const int16_t *in, int16_t *out, int32_t rows)
{
    for (; rows > 0; rows--, in += L->length, out += L->length) {
        logarithms(L, NULL, in, out);
    }
}

void cortado_kept_log_softmax_s16(const cortado_log_softmax_s16_t *L, const int16_t *in, const int8_t *kept,
                                  int16_t *out)
{
    for (int32_t r = 0; r < L->rows; r++, in += L->length, out += L->length) {
        logarithms(L, kept + r % L->kept_rows * L->length, in, out);
    }
}
