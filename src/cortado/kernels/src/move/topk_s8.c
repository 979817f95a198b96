/* SPDX-License-Identifier: Apache-2.0
 *
 * Which channels of each pixel hold its largest codes, or its smallest, and these codes.
 *
 * Tile: 1 channel of the result. Scratch: none.
 */
#include "cortado.h"

/* The channel that follows `last`, which holds `last_v`, in the order of the result; all follow 128. */
static int32_t next_best(const int8_t *in, int32_t channels, int32_t flip, int32_t last, int32_t last_v)
{
    int32_t best = 0, best_v = -129;
    for (int32_t c = 0; c < channels; c++) {
        const int32_t v = in[c] ^ flip;
        if (v > best_v && (v < last_v || (v == last_v && c > last))) {
            best = c;
            best_v = v;
        }
    }
    return best;
}

void cortado_topk_s8(const int8_t *in, int32_t *out, int32_t pixels, int32_t channels, int32_t count, int32_t largest,
                     int8_t *values)
{
    const int32_t flip = largest != 0 ? 0 : -1; /* ~v is smaller for larger v */
    for (; pixels > 0; pixels--, in += channels) {
        int32_t last = 0, last_v = 128;
        for (int32_t i = 0; i < count; i++) {
            last = next_best(in, channels, flip, last, last_v);
            last_v = in[last] ^ flip;
            if (out != NULL) {
                *out++ = last;
            }
            if (values != NULL) {
                *values++ = in[last];
            }
        }
    }
}
