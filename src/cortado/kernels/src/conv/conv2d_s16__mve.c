/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution of 16-bit codes with 8-bit weights, with vector instructions: see conv_tile_s16__mve.h.
 *
 * Tile: 2 pixels x 4 channels, an odd last one alone. Scratch: 2 windows, 2 bytes per product of each.
 */
#include "conv_tile_s16__mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "cortado_wide.h"

/* The kernel's input: the group's first channel, its channels per tap, the codes of a window's row. */
typedef struct {
    const cortado_layer_s16_packed_t *L;
    const int8_t *const *rows;
    int32_t first, depth, across;
} source_t;

static inline int16_t *copy(int16_t *to, const int16_t *from, int32_t n)
{
    int16_t *const end = to + n;
    __asm__ volatile("wlstp.16 lr, %2, 2f\n"
                     "1: vldrh.16 q0, [%1], #16\n"
                     "vstrh.16 q0, [%0], #16\n"
                     "letp lr, 1b\n"
                     "2:"
                     : "+r"(to), "+r"(from)
                     : "r"(n)
                     : "lr", "q0", "cc", "memory");
    return end;
}

/* A window's row that is not one run. */
static int16_t *copy_taps(const source_t *S, const int16_t *row, int32_t x, int16_t *to)
{
    const cortado_layer_s16_packed_t *L = S->L;
    for (int32_t kx = L->kernel_w; kx > 0; kx--, x += L->dilation_w) {
        const int16_t *pixel = row != NULL && x >= 0 && x < L->in_w ? row + x * L->in_c : L->zero;
        to = copy(to, pixel + S->first, S->depth);
    }
    return to;
}

/* The window of one pixel: where it lies if it is one run, else a copy. */
static const int16_t *window(const source_t *S, int32_t left, int16_t *to)
{
    const cortado_layer_s16_packed_t *L = S->L;
    const int run = L->dilation_w == 1 && L->groups == 1 && left >= 0 && left + L->kernel_w <= L->in_w;
    const int16_t *const start = to;
    const int32_t at = left * L->in_c;
    if (run && L->kernel_h == 1 && S->rows[0] != NULL) {
        return cortado_wide_row(S->rows[0]) + at;
    }
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        const int16_t *row = cortado_wide_row(S->rows[ky]);
        to = run && row != NULL ? copy(to, row + at, S->across) : copy_taps(S, row, left, to);
    }
    return start;
}

/* Whether windows inside the image consist of one run per row, which must be copied together. */
static int has_runs(const cortado_layer_s16_packed_t *L, const int8_t *const rows[])
{
    int found = L->dilation_w == 1 && L->groups == 1 && L->kernel_h > 1;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        found = found && rows[ky] != NULL;
    }
    return found;
}

/* The windows of two pixels, whose rows start `at` codes from each row's start and `step` codes behind that. */
static inline void copy_runs(const source_t *S, int32_t at, int32_t step, int16_t *to0, int16_t *to1)
{
    const int8_t *const *row = S->rows, *const *const end = row + S->L->kernel_h;
    do {
        const int16_t *const from = cortado_wide_row(*row++) + at;
        to0 = copy(to0, from, S->across);
        to1 = copy(to1, from + step, S->across);
    } while (row != end);
}

void cortado_conv2d_s16__mve(const cortado_layer_s16_packed_t *L, const int8_t *const rows[], int16_t *out,
                             void *scratch)
{
    const int32_t depth = L->in_c / L->groups, size = L->kernel_h * L->kernel_w * depth;
    source_t source = {L, rows, 0, depth, L->kernel_w * depth};
    cortado_wide_tile_mve_t tile = cortado_wide_tile_mve(L, size);
    int16_t *const first = scratch, *const second = first + size;
    /* Up to this column the windows of two pixels are inside the image. */
    const int32_t last = has_runs(L, rows) ? L->in_w - L->kernel_w - L->stride_w : -1;
    for (int32_t group = 0; group < L->groups; group++) {
        const int8_t *next = tile.stream;
        int32_t left = -L->pad_left;
        int16_t *to = out;
        for (int32_t x = L->out_w; x > 0; x -= 2) {
            const int16_t *x0 = first, *x1 = second;
            if (x > 1 && left >= 0 && left <= last) {
                copy_runs(&source, left * L->in_c, L->stride_w * L->in_c, first, second);
            } else {
                x0 = window(&source, left, first);
                if (x == 1) {
                    next = cortado_conv_tile1_s16__mve(&tile, x0, to);
                    break;
                }
                x1 = window(&source, left + L->stride_w, second);
            }
            next = cortado_conv_tile2_s16__mve(&tile, x0, x1, to, to + L->out_c);
            left += 2 * L->stride_w;
            to += 2 * L->out_c;
        }
        tile.stream = next;
        source.first += depth;
        out += tile.channels;
    }
}
#else
typedef int cortado_conv2d_s16_needs_mve; /* an empty translation unit is not C */
#endif
