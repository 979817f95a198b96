/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution of 16-bit codes with 8-bit weights on small cores: one output row, a 1x1 window over a span of pixels, or
 * one pixel. See conv_tile_s16__scalar.h.
 *
 * Tile: 4 pixels x 1 channel; one pixel of a 1x1 window alone x 3 channels. Scratch: 4 windows, 16 bytes per product, a
 * multiple of 4 of them; none for one pixel.
 */
#include "conv_tile_s16__scalar.h"

#if defined(__thumb__) && CORTADO_SMALL_CORE

/* n codes to every fourth word. */
static CORTADO_ONCE int32_t *spread(int32_t *to, const int16_t *x, int32_t n)
{
    for (; n >= 4; n -= 4, x += 4, to += 16) {
        to[0] = x[0];
        to[4] = x[1];
        to[8] = x[2];
        to[12] = x[3];
    }
    for (; n > 0; n--, to += 4) {
        to[0] = *x++;
    }
    return to;
}

void cortado_conv1x1_s16__scalar(const cortado_layer_s16_packed_t *L, const int16_t *in, int16_t *out, int32_t pixels,
                                 void *scratch)
{
    const cortado_small_tile_t tile = {L->weights,     cortado_round4(L->in_c), L->out_c,
                                       2 * L->out_c,   L->act_min,              L->act_max};
    while (pixels > 0) {
        const int32_t now = cortado_min(pixels, 4);
        for (int32_t i = 0; i < now; i++, in += L->in_c) {
            (void)spread((int32_t *)scratch + i, in, L->in_c);
        }
        (void)cortado_conv_tile4_s16__scalar(&tile, scratch, now, out);
        out += now * L->out_c;
        pixels -= now;
    }
}

/* A channel's sum without its bias; bias, multiplier and shift are next in the stream. */
static int16_t code(const cortado_layer_s16_packed_t *L, int32_t sum, const int32_t *factors)
{
    const int32_t v = cortado_requant(sum + factors[0], factors[1], factors[2]);
    return (int16_t)cortado_clamp(v, L->act_min, L->act_max);
}

void cortado_linear_s16__scalar(const cortado_layer_s16_packed_t *L, const int16_t *in, int16_t *out, int32_t pixels,
                                void *scratch)
{
    const int32_t n = L->in_c, rows = cortado_round4(6 * n);
    (void)scratch;
    for (; pixels > 0; pixels--, in += n) {
        const int8_t *stream = L->weights;
        for (int32_t left = L->out_c; left > 0; left -= 6, stream += rows + 72) {
            const int32_t *factors = (const int32_t *)(const void *)(stream + rows);
            int32_t sums[6];
            cortado_linear_three_s16__scalar(in, stream, n, sums);
            if (left > 3) {
                cortado_linear_three_s16__scalar(in, stream + 1, n, sums + 3);
            }
            for (int32_t i = 0; i < cortado_min(left, 6); i++, factors += 3) {
                *out++ = code(L, sums[i], factors);
            }
        }
    }
}

/* The kernel's input: the group's first channel, and its channels per tap. */
typedef struct {
    const cortado_layer_s16_packed_t *L;
    const int8_t *const *rows;
    int32_t first, depth;
} source_t;

/* The window of one pixel, from column `left` on. Taps without gaps inside the image are one run. */
static void gather(const source_t *S, int32_t left, int32_t *to)
{
    const cortado_layer_s16_packed_t *L = S->L;
    const int32_t run = L->dilation_w == 1 && L->groups == 1 ? L->in_w : 0;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        const int16_t *row = cortado_wide_row(S->rows[ky]);
        for (int32_t kx = 0, x = left; kx < L->kernel_w;) {
            const int inside = row != NULL && x >= 0 && x < L->in_w;
            const int32_t taps = inside && x < run ? cortado_min(L->kernel_w - kx, run - x) : 1;
            to = spread(to, (inside ? row + x * L->in_c : L->zero) + S->first, taps * S->depth);
            kx += taps;
            x += taps * L->dilation_w;
        }
    }
}

void cortado_conv2d_s16__scalar(const cortado_layer_s16_packed_t *L, const int8_t *const rows[], int16_t *out,
                                void *scratch)
{
    source_t source = {L, rows, 0, L->in_c / L->groups};
    const int32_t channels = L->out_c / L->groups, size = L->kernel_h * L->kernel_w * source.depth;
    cortado_small_tile_t tile = {L->weights, cortado_round4(size), channels, 2 * L->out_c, L->act_min, L->act_max};
    for (int32_t group = 0; group < L->groups; group++) {
        const int8_t *next = tile.stream;
        int32_t left = -L->pad_left;
        for (int32_t x = 0; x < L->out_w; x += 4) {
            const int32_t now = cortado_min(L->out_w - x, 4);
            for (int32_t i = 0; i < now; i++, left += L->stride_w) {
                gather(&source, left, (int32_t *)scratch + i);
            }
            next = cortado_conv_tile4_s16__scalar(&tile, scratch, now, out + x * L->out_c);
        }
        tile.stream = next;
        source.first += source.depth;
        out += channels;
    }
}
#else
typedef int cortado_conv2d_s16_needs_a_small_core; /* an empty translation unit is not C */
#endif
