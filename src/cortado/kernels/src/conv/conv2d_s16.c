/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution of 16-bit codes with 8-bit weights: one output row, or a 1x1 window over a span of pixels.
 *
 * Tile: 1 pixel x 2 channels. Scratch: none.
 */
#include "cortado_wide.h"

/* The taps of one row of the window; outside of the image they add nothing. */
static void add_row(const cortado_layer_s16_t *L, const int16_t *row, int32_t left, const int8_t *wa, const int8_t *wb,
                    cortado_wide_pair_t *sum)
{
    const int32_t depth = L->in_c / L->groups;
    for (int32_t kx = 0; kx < L->kernel_w; kx++) {
        const int32_t x = left + kx * L->dilation_w;
        if (x >= 0 && x < L->in_w) {
            cortado_wide_add(sum, row + x * L->in_c, wa + kx * depth, wb + kx * depth, depth);
        }
    }
}

static void add_window(const cortado_layer_s16_t *L, const int8_t *const rows[], int32_t left, int32_t channel,
                       const int8_t *wa, const int8_t *wb, cortado_wide_pair_t *sum)
{
    const int32_t run = L->kernel_w * (L->in_c / L->groups);
    const int whole = L->dilation_w == 1 && L->groups == 1 && left >= 0 && left + L->kernel_w <= L->in_w;
    for (int32_t ky = 0; ky < L->kernel_h; ky++, wa += run, wb += run) {
        const int16_t *row = cortado_wide_row(rows[ky]);
        if (row != NULL && whole) {
            cortado_wide_add(sum, row + left * L->in_c, wa, wb, run);
        } else if (row != NULL) {
            add_row(L, row + channel, left, wa, wb, sum);
        }
    }
}

void cortado_conv2d_s16(const cortado_layer_s16_t *L, const int8_t *const rows[], int16_t *out, void *scratch)
{
    const int32_t depth = L->in_c / L->groups, made = L->out_c / L->groups;
    const int32_t size = L->kernel_h * L->kernel_w * depth;
    (void)scratch;
    for (int32_t x = 0; x < L->out_w; x++, out += L->out_c) {
        for (int32_t c = 0; c < L->out_c; c += 2) {
            /* An odd last channel of a group is computed twice. */
            const int32_t group = c / made, next = cortado_min(c + 1, (group + 1) * made - 1);
            cortado_wide_pair_t sum = {cortado_wide_start(L, c), cortado_wide_start(L, next)};
            add_window(L, rows, x * L->stride_w - L->pad_left, group * depth, L->weights + c * size,
                       L->weights + next * size, &sum);
            out[c] = cortado_wide_code(L, sum.a, c);
            out[next] = cortado_wide_code(L, sum.b, next);
            c -= c + 1 - next;
        }
    }
}

void cortado_conv1x1_s16(const cortado_layer_s16_t *L, const int16_t *in, int16_t *out, int32_t pixels, void *scratch)
{
    (void)scratch;
    for (int32_t c = 0; c < L->out_c; c += 2) {
        const int32_t next = cortado_min(c + 1, L->out_c - 1);
        const int8_t *wa = L->weights + c * L->in_c, *wb = L->weights + next * L->in_c;
        const int16_t *x = in;
        int16_t *to = out;
        for (int32_t left = pixels; left > 0; left--, x += L->in_c, to += L->out_c) {
            cortado_wide_pair_t sum = {cortado_wide_start(L, c), cortado_wide_start(L, next)};
            cortado_wide_add(&sum, x, wa, wb, L->in_c);
            to[c] = cortado_wide_code(L, sum.a, c);
            to[next] = cortado_wide_code(L, sum.b, next);
        }
    }
}
