/* SPDX-License-Identifier: Apache-2.0
 *
 * 1x1 convolution, four pixels at a time, two per multiply: see cortado_pairs.h.
 */
#include "cortado_pairs.h"

void cortado_conv1x1_s8__scalar(const cortado_conv1x1_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                void *scratch)
{
    const cortado_pairs_t layer = {L->in_c,    L->out_c,   L->out_c, L->out_offset, L->act_min,
                                   L->act_max, L->weights, L->bias,  L->multiplier, L->shift};
    int32_t *const packed = scratch;
    while (pixels > 0) {
        const int32_t n = cortado_min(pixels, 4), pairs = n > 2 ? 2 : 1;
        for (int32_t pair = 0; pair < pairs; pair++) {
            const int8_t *x0 = in + 2 * pair * L->in_c;
            /* An odd last pixel fills the pair with itself. */
            cortado_pairs_pack(packed + pair, pairs, x0, 2 * pair + 1 < n ? x0 + L->in_c : x0, L->in_c);
        }
        cortado_pairs_block(&layer, packed, n, out);
        pixels -= n;
        in += n * L->in_c;
        out += n * L->out_c;
    }
}
