/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution with vector instructions, two pixels at a time: see conv_tile_s8__mve.h.
 *
 * Tile: 2 pixels x 4 channels. Scratch: 2 windows of bytes.
 */
#include "conv_tile_s8__mve.h"

#if defined(__ARM_FEATURE_MVE)

/* The kernel's input: the group's first channel, its channels per tap, the bytes of a window's row. */
typedef struct {
    const cortado_conv2d_packed_t *L;
    const int8_t *const *rows;
    int32_t first, depth, row_bytes;
} source_t;

static inline int8_t *copy(int8_t *to, const int8_t *from, int32_t n)
{
    int8_t *const end = to + n;
    __asm__ volatile("wlstp.8 lr, %2, 2f\n"
                     "1: vldrb.8 q0, [%1], #16\n"
                     "vstrb.8 q0, [%0], #16\n"
                     "letp lr, 1b\n"
                     "2:"
                     : "+r"(to), "+r"(from)
                     : "r"(n)
                     : "lr", "q0", "cc", "memory");
    return end;
}

/* A window's row that is not one run of bytes. */
static int8_t *copy_taps(const source_t *S, const int8_t *row, int32_t x, int8_t *to)
{
    const cortado_conv2d_packed_t *L = S->L;
    for (int32_t kx = L->kernel_w; kx > 0; kx--) {
        const int8_t *pixel = row != NULL && x >= 0 && x < L->in_w ? row + x * L->in_c : L->zero;
        to = copy(to, pixel + S->first, S->depth);
        x += L->dilation_w;
    }
    return to;
}

/* The window of one pixel: where it lies if it is one run of bytes, else a copy. */
static const int8_t *window(const source_t *S, int32_t left, int8_t *to)
{
    const cortado_conv2d_packed_t *L = S->L;
    const int8_t *const *row = S->rows, *const *const end = row + L->kernel_h, *const start = to;
    const int run = L->dilation_w == 1 && L->groups == 1 && left >= 0 && left + L->kernel_w <= L->in_w;
    const int32_t at = left * L->in_c, n = S->row_bytes;
    if (run && L->kernel_h == 1 && *row != NULL) {
        return *row + at;
    }
    for (; row != end; row++) {
        to = run && *row != NULL ? copy(to, *row + at, n) : copy_taps(S, *row, left, to);
    }
    return start;
}

/* Whether windows inside the image consist of one run of bytes per row, which must be copied together. */
static int has_runs(const cortado_conv2d_packed_t *L, const int8_t *const rows[])
{
    int found = L->dilation_w == 1 && L->groups == 1 && L->kernel_h > 1;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        found = found && rows[ky] != NULL;
    }
    return found;
}

/* The windows of two pixels, whose rows start `at` bytes from each row's start and `step` bytes behind that. */
static inline void copy_runs(const source_t *S, int32_t at, int32_t step, int8_t *to0, int8_t *to1)
{
    const int8_t *const *row = S->rows, *const *const end = row + S->L->kernel_h;
    do {
        const int8_t *const from = *row++ + at;
        to0 = copy(to0, from, S->row_bytes);
        to1 = copy(to1, from + step, S->row_bytes);
    } while (row != end);
}

void cortado_conv2d_s8__mve(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out, void *scratch)
{
    const int32_t channels = L->out_c / L->groups;
    const int32_t depth = L->in_c / L->groups, row_bytes = L->kernel_w * depth, size = L->kernel_h * row_bytes;
    source_t source = {L, rows, 0, depth, row_bytes};
    cortado_conv_tile_mve_t group =
        cortado_conv_tile_mve(L->weights, size, channels, L->out_offset, L->act_min, L->act_max);
    int8_t *const second = (int8_t *)scratch + size;
    /* Up to this column the windows of two pixels are inside the image. */
    const int32_t last = has_runs(L, rows) ? L->in_w - L->kernel_w - L->stride_w : -1;
    const int32_t step = L->stride_w * L->in_c;
    for (int32_t g = 0; g < L->groups; g++) {
        const int8_t *next = group.stream;
        int32_t left = -L->pad_left;
        int8_t *to = out;
        for (int32_t x = L->out_w; x > 0; x -= 2) {
            const int8_t *x0 = scratch, *x1 = second;
            if (x > 1 && left >= 0 && left <= last) {
                copy_runs(&source, left * L->in_c, step, scratch, second);
            } else {
                x0 = window(&source, left, scratch);
                if (x == 1) {
                    next = cortado_conv_tile1_s8__mve(&group, x0, to);
                    break;
                }
                x1 = window(&source, left + L->stride_w, second);
            }
            next = cortado_conv_tile2_s8__mve(&group, x0, x1, to, to + L->out_c);
            left += 2 * L->stride_w;
            to += 2 * L->out_c;
        }
        group.stream = next;
        source.first += depth;
        out += channels;
    }
}
#else
typedef int cortado_conv2d_needs_mve; /* an empty translation unit is not C */
#endif
