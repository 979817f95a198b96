/* SPDX-License-Identifier: Apache-2.0
 *
 * Transposed convolution of 16-bit codes with 8-bit weights, of whole images.
 *
 * Output pixel x is reached from input pixel j through tap k where x + pad = j * stride + k * dilation: by every
 * stride / gcd(stride, dilation)-th tap, each time dilation / gcd input pixels further left; and so are rows.
 *
 * Tile: 1 pixel x 2 channels. Scratch: none.
 */
#include "cortado_wide.h"

typedef struct {
    int32_t first, step; /* taps first, first + step, ... reach the position */
    int32_t place, back; /* the first reads input position `place`, each next one `back` positions before */
} taps_t;

static int32_t common_divisor(int32_t a, int32_t b)
{
    while (b != 0) {
        const int32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The first tap that reaches a position exactly; `first` is `kernel` if none does. */
static taps_t find_taps(int32_t at, int32_t kernel, int32_t stride, int32_t dilation)
{
    const int32_t common = common_divisor(stride, dilation);
    taps_t taps = {0, stride / common, 0, dilation / common};
    while (taps.first < kernel && at >= 0 && at % stride != 0) {
        at -= dilation;
        taps.first++;
    }
    taps.first = at < 0 ? kernel : taps.first;
    taps.place = at / stride;
    return taps;
}

static void add_taps(const cortado_transpose_conv2d_s16_t *L, const int16_t *in, taps_t down, taps_t across,
                     const int8_t *wa, const int8_t *wb, cortado_wide_pair_t *sum)
{
    const int32_t depth = L->in_c / L->groups;
    for (int32_t y = down.place; down.first < L->kernel_h && y >= 0; down.first += down.step, y -= down.back) {
        const int32_t run = down.first * L->kernel_w;
        int32_t x = across.place;
        for (int32_t kx = across.first; y < L->in_h && kx < L->kernel_w && x >= 0; kx += across.step) {
            if (x < L->in_w) {
                const int16_t *pixel = in + (y * L->in_w + x) * L->in_c;
                cortado_wide_add(sum, pixel, wa + (run + kx) * depth, wb + (run + kx) * depth, depth);
            }
            x -= across.back;
        }
    }
}

static void one_pixel(const cortado_transpose_conv2d_s16_t *L, const int16_t *in, taps_t down, taps_t across,
                      int16_t *out)
{
    const cortado_layer_s16_t codes = {
        .sum_shift = L->sum_shift,
        .act_min = L->act_min,
        .act_max = L->act_max,
        .bias = L->bias,
        .multiplier = L->multiplier,
        .shift = L->shift,
    };
    const int32_t depth = L->in_c / L->groups, made = L->out_c / L->groups, size = L->kernel_h * L->kernel_w * depth;
    for (int32_t group = 0; group < L->groups; group++, in += depth) {
        const int32_t last = (group + 1) * made - 1;
        for (int32_t c = group * made; c <= last; c += 2) {
            const int32_t next = cortado_min(c + 1, last); /* an odd last channel is computed twice */
            cortado_wide_pair_t sum = {cortado_wide_start(&codes, c), cortado_wide_start(&codes, next)};
            add_taps(L, in, down, across, L->weights + c * size, L->weights + next * size, &sum);
            out[c] = cortado_wide_code(&codes, sum.a, c);
            out[next] = cortado_wide_code(&codes, sum.b, next);
        }
    }
}

void cortado_transpose_conv2d_s16(const cortado_transpose_conv2d_s16_t *L, const int16_t *in, int16_t *out)
{
    for (int32_t image = 0; image < L->images; image++, in += L->in_h * L->in_w * L->in_c) {
        for (int32_t y = 0; y < L->out_h; y++) {
            const taps_t down = find_taps(y + L->pad_top, L->kernel_h, L->stride_h, L->dilation_h);
            for (int32_t x = 0; x < L->out_w; x++, out += L->out_c) {
                one_pixel(L, in, down, find_taps(x + L->pad_left, L->kernel_w, L->stride_w, L->dilation_w), out);
            }
        }
    }
}
