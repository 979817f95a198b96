/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution with 4-bit weights and vector instructions, two pixels at a time: see conv_narrow_s8__mve.h.
 *
 * Tile: 2 pixels x 4 channels. Scratch: 2 windows of bytes.
 */
#include "conv_narrow_s8__mve.h"

#if defined(__ARM_FEATURE_MVE)

typedef void (*tile_t)(const cortado_conv_tile_mve_t *T, const int8_t *x, int8_t *out);

static void two_narrow(const cortado_conv_tile_mve_t *T, const int8_t *x, int8_t *out)
{
    cortado_conv_narrow2_s8__mve(T, x, out, 1);
}

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

/* The window of one pixel, from column `left` on. Taps without gaps inside the image are one run of bytes. */
static CORTADO_ONCE void gather(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int32_t left, int8_t *to)
{
    const int run = L->dilation_w == 1 && left >= 0 && left + L->kernel_w <= L->in_w;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        const int8_t *row = rows[ky];
        if (run && row != NULL) {
            to = copy(to, row + left * L->in_c, L->kernel_w * L->in_c);
            continue;
        }
        for (int32_t kx = 0, x = left; kx < L->kernel_w; kx++, x += L->dilation_w) {
            to = copy(to, row != NULL && x >= 0 && x < L->in_w ? row + x * L->in_c : L->zero, L->in_c);
        }
    }
}

static inline void all(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out, int8_t *scratch,
                       tile_t two, tile_t one)
{
    const int32_t size = L->kernel_h * L->kernel_w * L->in_c;
    const cortado_conv_tile_mve_t layer =
        cortado_conv_tile_mve(L->weights, size, L->out_c, L->out_offset, L->act_min, L->act_max);
    int32_t left = -L->pad_left;
    for (int32_t x = L->out_w; x > 0;) {
        const int32_t n = x > 1 && layer.blocks > 0 ? 2 : 1;
        gather(L, rows, left, scratch);
        if (n == 2) {
            gather(L, rows, left + L->stride_w, scratch + size);
            two(&layer, scratch, out);
        } else {
            one(&layer, scratch, out);
        }
        left += n * L->stride_w;
        out += n * L->out_c;
        x -= n;
    }
}

void cortado_conv2d_narrow_s8__mve(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                   void *scratch)
{
    all(L, rows, out, scratch, two_narrow, cortado_conv_narrow1_s8__mve);
}

void cortado_conv2d_runs_s8__mve(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                 void *scratch)
{
    all(L, rows, out, scratch, cortado_conv_runs2_s8__mve, cortado_conv_runs1_s8__mve);
}
#else
typedef int cortado_conv2d_narrow_needs_mve; /* an empty translation unit is not C */
#endif
