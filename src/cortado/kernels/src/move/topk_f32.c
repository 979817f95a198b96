/* SPDX-License-Identifier: Apache-2.0
 *
 * Which channels of each pixel hold its largest numbers, or its smallest, and these numbers, in float32.
 *
 * Tile: 1 channel of the result. Scratch: none.
 */
#include "cortado_float.h"

/* Numbers in the order of integers, NaN above all; zeros of either sign are equal. */
static int32_t ranked(float v, int32_t largest)
{
    const uint32_t bits = cortado_f32_bits(v != v ? cortado_f32_nan() : v + 0.0f);
    const int32_t rank = bits >> 31 != 0 ? -(int32_t)(bits & 0x7FFFFFFFu) : (int32_t)bits;
    return largest != 0 ? rank : -rank;
}

/* The channel that follows `last` in the order of the result; the first one for -1. */
static int32_t next_best(const float *in, int32_t channels, int32_t largest, int32_t last)
{
    int32_t best = -1, best_rank = 0;
    const int32_t last_rank = last < 0 ? 0 : ranked(in[last], largest);
    for (int32_t c = 0; c < channels; c++) {
        const int32_t rank = ranked(in[c], largest);
        const int32_t behind = last < 0 || rank < last_rank || (rank == last_rank && c > last);
        if (behind && (best < 0 || rank > best_rank)) {
            best = c;
            best_rank = rank;
        }
    }
    return best;
}

void cortado_topk_f32(const float *in, int32_t *out, int32_t pixels, int32_t channels, int32_t count, int32_t largest,
                      float *values)
{
    for (; pixels > 0; pixels--, in += channels) {
        int32_t last = -1;
        for (int32_t i = 0; i < count; i++) {
            last = next_best(in, channels, largest, last);
            if (out != NULL) {
                *out++ = last;
            }
            if (values != NULL) {
                *values++ = in[last];
            }
        }
    }
}
