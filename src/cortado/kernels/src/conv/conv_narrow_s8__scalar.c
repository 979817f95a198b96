/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution with 4-bit weights on small cores, four pixels at a time: see conv_narrow_s8__scalar.h.
 *
 * Tile: 4 pixels x 1 channel. Scratch: 4 windows unpacked, 8 bytes per product.
 */
#include "conv_narrow_s8__scalar.h"

#if defined(__thumb__) && CORTADO_SMALL_CORE

typedef void (*tile_t)(const cortado_conv_tile_t *T, const void *x, int32_t pixels, int8_t *out);

static inline int32_t eights(int32_t n) { return (n + 7) & -8; }

static inline void pixels_of(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                             int32_t *x, tile_t of_tile)
{
    const cortado_conv_tile_t tile = {L->weights,    eights(L->in_c), L->out_c, L->out_c,
                                      L->out_offset, L->act_min,      L->act_max};
    while (pixels > 0) {
        const int32_t n = cortado_min(pixels, 4);
        for (int32_t i = 0; i < 2; i++) {
            /* Pixels that make a tile whole are copies of the last one. */
            const int8_t *first = in + cortado_min(2 * i, n - 1) * L->in_c;
            const int8_t *second = in + cortado_min(2 * i + 1, n - 1) * L->in_c;
            (void)cortado_conv_tile_pack(x + i, 2, first, second, L->in_c);
        }
        of_tile(&tile, x, n, out);
        pixels -= n;
        in += n * L->in_c;
        out += n * L->out_c;
    }
}

static inline const int8_t *tap(const cortado_conv2d_packed_t *L, const int8_t *row, int32_t x)
{
    return row != NULL && x >= 0 && x < L->in_w ? row + x * L->in_c : L->zero;
}

/* The windows of two pixels, which start at columns left and left + step. */
static CORTADO_ONCE void windows(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int32_t left,
                                 int32_t step, int32_t *to)
{
    const int run = L->dilation_w == 1 && left >= 0 && left + step + L->kernel_w <= L->in_w;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        const int8_t *row = rows[ky];
        if (run && row != NULL) {
            const int8_t *x0 = row + left * L->in_c;
            to = cortado_conv_tile_pack(to, 2, x0, x0 + step * L->in_c, L->kernel_w * L->in_c);
            continue;
        }
        for (int32_t kx = 0, x = left; kx < L->kernel_w; kx++, x += L->dilation_w) {
            to = cortado_conv_tile_pack(to, 2, tap(L, row, x), tap(L, row, x + step), L->in_c);
        }
    }
}

static inline void row_of(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out, int32_t *x,
                          tile_t of_tile)
{
    const int32_t size = L->kernel_h * L->kernel_w * L->in_c;
    const cortado_conv_tile_t tile = {L->weights,    eights(size), L->out_c, L->out_c,
                                      L->out_offset, L->act_min,   L->act_max};
    for (int32_t at = 0; at < L->out_w; at += 4) {
        const int32_t n = cortado_min(L->out_w - at, 4);
        for (int32_t i = 0; i < 2; i++) {
            const int32_t first = cortado_min(2 * i, n - 1), second = cortado_min(2 * i + 1, n - 1);
            const int32_t left = (at + first) * L->stride_w - L->pad_left;
            windows(L, rows, left, (second - first) * L->stride_w, x + i);
        }
        of_tile(&tile, x, n, out + at * L->out_c);
    }
}

void cortado_conv1x1_narrow_s8__scalar(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                       void *scratch)
{
    pixels_of(L, in, out, pixels, scratch, cortado_conv_narrow_s8__scalar);
}

void cortado_conv1x1_runs_s8__scalar(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                     void *scratch)
{
    pixels_of(L, in, out, pixels, scratch, cortado_conv_runs_s8__scalar);
}

void cortado_conv2d_narrow_s8__scalar(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                      void *scratch)
{
    row_of(L, rows, out, scratch, cortado_conv_narrow_s8__scalar);
}

void cortado_conv2d_runs_s8__scalar(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                    void *scratch)
{
    row_of(L, rows, out, scratch, cortado_conv_runs_s8__scalar);
}
#else
typedef int cortado_conv_narrow_needs_a_small_core; /* an empty translation unit is not C */
#endif
