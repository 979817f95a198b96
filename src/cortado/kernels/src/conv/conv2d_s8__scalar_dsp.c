/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution, a few pixels at a time: see conv_tile_s8__scalar_dsp.h.
 *
 * Tile: 2 pixels x 1 channel, without DSP 2 channels; on small cores 4 pixels (lean: 2) x 1 channel. Scratch: 2 windows
 * unpacked, 4 bytes per product, with DSP and taps that are no multiple of 4 a window of bytes more; on small cores 4
 * windows, 8 bytes per product (lean: 4).
 */
#include "conv_tile_s8__scalar_dsp.h"

#if defined(CORTADO_LANE)

/* The kernel's input: the group's first channel, and its channels per tap. */
typedef struct {
    const cortado_conv2d_packed_t *L;
    const int8_t *const *rows;
    int32_t first, depth;
} source_t;

static inline source_t source_of(const cortado_conv2d_packed_t *L, const int8_t *const rows[])
{
    const source_t S = {L, rows, 0, L->in_c / L->groups};
    return S;
}

static inline const int8_t *tap(const source_t *S, const int8_t *row, int32_t x)
{
    const cortado_conv2d_packed_t *L = S->L;
    return (row != NULL && x >= 0 && x < L->in_w ? row + x * L->in_c : L->zero) + S->first;
}

/* Windows from column `left` on, inside the image and without gaps, are one run of bytes per row. */
static inline int one_run(const cortado_conv2d_packed_t *L, int32_t left, int32_t last)
{
    return L->dilation_w == 1 && L->groups == 1 && left >= 0 && last + L->kernel_w <= L->in_w;
}

/* The windows of two pixels, which start at columns left and left + step. */
static void lay_out_pair(const source_t *S, int32_t left, int32_t step, int32_t *to, int32_t words)
{
    const cortado_conv2d_packed_t *L = S->L;
    const int run = one_run(L, left, left + step);
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        const int8_t *row = S->rows[ky];
        if (run && row != NULL) {
            const int8_t *x0 = row + left * L->in_c;
            to = cortado_conv_tile_pack(to, words, x0, x0 + step * L->in_c, L->kernel_w * S->depth);
            continue;
        }
        for (int32_t kx = 0, x = left; kx < L->kernel_w; kx++, x += L->dilation_w) {
            to = cortado_conv_tile_pack(to, words, tap(S, row, x), tap(S, row, x + step), S->depth);
        }
    }
}

static void lay_out(const source_t *S, int32_t left, int32_t pixels, int32_t size, int32_t *x)
{
    const int32_t words = pixels > 2 ? 2 : 1, stride = S->L->stride_w;
    (void)size;
    for (int32_t i = 0; i < words; i++) {
        /* An odd last pixel fills the pair with itself. */
        lay_out_pair(S, left + 2 * i * stride, 2 * i + 1 < pixels ? stride : 0, x + i, words);
    }
}

#else
#include "conv_window_s8__dsp.h"

typedef cortado_conv_source_t source_t;
#define source_of cortado_conv_source

static void lay_out(const source_t *S, int32_t left, int32_t pixels, int32_t size, int32_t *x)
{
    cortado_conv_windows(S, left, pixels, 2, size, x);
}

#endif

void CORTADO_ISA(cortado_conv2d_s8)(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                    void *scratch)
{
    const int32_t channels = L->out_c / L->groups;
    const int32_t together = L->lean != 0 ? 2 : CORTADO_TILE_PIXELS;
    source_t source = source_of(L, rows);
    const int32_t size = L->kernel_h * L->kernel_w * source.depth;
    cortado_conv_tile_t tile = {L->weights,    cortado_round4(size), channels, L->out_c,
                                L->out_offset, L->act_min,           L->act_max};
    for (int32_t group = 0; group < L->groups; group++) {
        const int8_t *next = tile.stream;
        for (int32_t x = 0; x < L->out_w; x += together) {
            const int32_t n = cortado_min(L->out_w - x, together);
            lay_out(&source, x * L->stride_w - L->pad_left, n, size, scratch);
            next = cortado_conv_tile(&tile, scratch, n, out + x * L->out_c);
        }
        tile.stream = next;
        source.first += source.depth;
        out += channels;
    }
}
