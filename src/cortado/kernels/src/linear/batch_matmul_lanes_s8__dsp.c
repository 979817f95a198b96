/* SPDX-License-Identifier: Apache-2.0
 *
 * Product of two computed matrices with DSP instructions, for sums of products that fit 24 bits: columns of the right
 * one are packed, as many as take a kilobyte, and serve all rows: see matmul_lanes_s8__dsp.S.
 *
 * Tile: 2 rows x 4 columns. Scratch: 2 rows as halfwords, the packed columns and a 32-bit sum for each.
 */
#include "matmul_lanes_s8.h"

#if defined(__ARM_FEATURE_DSP)
#include "cortado_dot.h"

#define LOWER 0x00ff00ffu /* the lower bytes of halfwords */

static inline uint32_t four_of(const int8_t *p, int32_t n)
{
    return (uint32_t)(n >= 4 ? cortado_load4(p) : cortado_load_few(p, n));
}

/* Two columns in every second word: the even one without its sign, the odd one above it. */
static void put_pair(int32_t *to, const int8_t *even, const int8_t *odd, int32_t depth)
{
    for (; depth > 0; depth -= 4, even += 4, odd += 4, to += 4) {
        const uint32_t low = four_of(even, depth) ^ 0x80808080u, high = four_of(odd, depth);
        to[0] = (int32_t)((low & LOWER) | (high & LOWER) << 8);
        to[2] = (int32_t)((low >> 8 & LOWER) | (high & ~LOWER));
    }
}

/* What the columns' sums start with, doubled: without a zero point of the first operand they need no sum of theirs. */
static inline int32_t start_of(const cortado_batch_matmul_t *L, const int8_t *column)
{
    const int32_t zero = L->lhs_zero;
    return zero == 0 ? 0 : 2 * zero * (L->depth * L->rhs_zero - cortado_sum(column, L->depth));
}

/* Columns by fours; in place of those that make a four whole, the last one. */
static void pack(const cortado_batch_matmul_t *L, int32_t *to, const int8_t *rhs, int32_t cols)
{
    const int32_t depth = L->depth, words = cortado_round4(depth);
    for (int32_t j = 0; j < cols; j += 4, to += words + 4) {
        for (int32_t i = 0; i < 4; i += 2) {
            const int8_t *even = rhs + cortado_min(j + i, cols - 1) * depth;
            const int8_t *odd = rhs + cortado_min(j + i + 1, cols - 1) * depth;
            put_pair(to + i / 2, even, odd, depth);
            to[words + i] = start_of(L, even);
            to[words + i + 1] = start_of(L, odd);
        }
    }
}

void cortado_batch_matmul_lanes_s8__dsp(const cortado_batch_matmul_t *L, const int8_t *lhs, const int8_t *rhs,
                                        int8_t *out, void *scratch)
{
    const int32_t depth = L->depth, most = cortado_matmul_lanes_columns(L);
    const cortado_matmul_lanes_t T = {(int32_t *)scratch + cortado_round4(depth), scratch, depth, L->cols,
                                      -128 - L->rhs_zero, -2 * L->rhs_zero, L->multiplier, -L->shift, L->out_zero};
    for (int32_t batch = 0; batch < L->batches; batch++) {
        for (int32_t j = 0; j < L->cols; j += most) {
            const int32_t cols = cortado_min(L->cols - j, most);
            pack(L, T.stream, rhs + j * depth, cols);
            for (int32_t i = 0; i < L->rows; i += 2) {
                const int32_t row = cortado_min(i, L->rows - 2); /* an odd last one with the one before it */
                cortado_matmul_lanes_s8__dsp(&T, lhs + row * depth, cols, out + row * L->cols + j);
            }
        }
        lhs += L->rows * depth;
        rhs += L->cols * depth;
        out += L->rows * L->cols;
    }
}
#else
typedef int cortado_batch_matmul_lanes_needs_dsp; /* an empty translation unit is not C */
#endif
