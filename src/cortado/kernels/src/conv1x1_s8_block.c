/* SPDX-License-Identifier: Apache-2.0
 *
 * 1x1 convolution, four pixels at a time: see cortado_block.h.
 */
#include "cortado_block.h"

/* Lays out up to four pixels; those that make a group whole are copies of the last one. */
static void lay_out(const cortado_conv1x1_t *L, const int8_t *in, int32_t pixels, int32_t *x)
{
#if defined(CORTADO_LANE)
    const int32_t words = pixels > 2 ? 2 : 1;
    for (int32_t i = 0; i < words; i++) {
        const int8_t *x0 = in + 2 * i * L->in_c;
        cortado_block_pack(x + i, words, x0, 2 * i + 1 < pixels ? x0 + L->in_c : x0, L->in_c);
    }
#else
    const int32_t words = pixels > 2 ? 4 : 2;
    for (int32_t i = 0; i < words; i++) {
        cortado_block_expand(x + i, words, in + cortado_min(i, pixels - 1) * L->in_c, L->in_c);
    }
#endif
}

void CORTADO_BLOCK_NAME(cortado_conv1x1_s8)(const cortado_conv1x1_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                            void *scratch)
{
    const cortado_block_t block = {L->weights,    cortado_round4(L->in_c), L->out_c, L->out_c,
                                   L->out_offset, L->act_min,              L->act_max};
    while (pixels > 0) {
        const int32_t n = cortado_min(pixels, 4);
        lay_out(L, in, n, scratch);
        cortado_block(&block, scratch, n, out);
        pixels -= n;
        in += n * L->in_c;
        out += n * L->out_c;
    }
}
