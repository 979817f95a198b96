/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution, four pixels at a time, two per multiply: see cortado_pairs.h.
 */
#include "cortado_pairs.h"

/* Packs the windows of two output pixels; they start at input columns left and left + step. */
static void pack_windows(const cortado_conv2d_t *L, const int8_t *const rows[], int32_t left, int32_t step, int32_t c,
                         int32_t *to, int32_t words)
{
    const int32_t depth = L->in_c / L->groups;
    /* Windows inside the image are one run of bytes per row. */
    const int inside = L->dilation_w == 1 && L->groups == 1 && left >= 0 && left + step + L->kernel_w <= L->in_w;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        const int8_t *row = rows[ky];
        if (inside && row != NULL) {
            const int8_t *x0 = row + left * L->in_c;
            to = cortado_pairs_pack(to, words, x0, x0 + step * L->in_c, L->kernel_w * depth);
            continue;
        }
        for (int32_t kx = 0; kx < L->kernel_w; kx++) {
            const int8_t *x[2];
            for (int32_t i = 0; i < 2; i++) {
                const int32_t at = left + i * step + kx * L->dilation_w;
                x[i] = (row != NULL && at >= 0 && at < L->in_w ? row + at * L->in_c : L->zero) + c;
            }
            to = cortado_pairs_pack(to, words, x[0], x[1], depth);
        }
    }
}

void cortado_conv2d_s8__scalar(const cortado_conv2d_t *L, const int8_t *const rows[], int8_t *out, void *scratch)
{
    const int32_t depth = L->in_c / L->groups, channels = L->out_c / L->groups;
    const int32_t size = L->kernel_h * L->kernel_w * depth;
    const int32_t padded = (channels + CORTADO_TILE_CHANNELS - 1) / CORTADO_TILE_CHANNELS * CORTADO_TILE_CHANNELS;
    int32_t *const packed = scratch;
    cortado_pairs_t group = {size,       channels,   L->out_c, L->out_offset, L->act_min,
                             L->act_max, L->weights, L->bias,  L->multiplier, L->shift};
    for (int32_t g = 0; g < L->groups; g++) {
        for (int32_t x = 0; x < L->out_w; x += 4) {
            const int32_t n = cortado_min(L->out_w - x, 4), pairs = n > 2 ? 2 : 1;
            for (int32_t pair = 0; pair < pairs; pair++) {
                /* An odd last pixel fills the pair with itself. */
                const int32_t left = (x + 2 * pair) * L->stride_w - L->pad_left;
                pack_windows(L, rows, left, 2 * pair + 1 < n ? L->stride_w : 0, g * depth, packed + pair, pairs);
            }
            cortado_pairs_block(&group, packed, n, out + x * L->out_c + g * channels);
        }
        group.weights += padded * ((size + 3) & ~3);
        group.bias += channels;
        group.multiplier += channels;
        group.shift += channels;
    }
}
