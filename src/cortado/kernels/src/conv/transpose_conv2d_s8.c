/* SPDX-License-Identifier: Apache-2.0
 *
 * Transposed convolution, one output row.
 *
 * Output pixel x is reached from input pixel j through tap kx where x + pad = j * stride + kx * dilation. The taps
 * that reach x are therefore an arithmetic progression: every stride / gcd(stride, dilation)-th tap, each time
 * dilation / gcd input pixels further left. So one division per pixel finds them all.
 *
 * Tile: 1 pixel x 1 channel. Scratch: none.
 */
#include "cortado.h"
#include "cortado_dot.h"

typedef struct {
    int32_t first, step;   /* taps first, first + step, ... reach the pixel */
    int32_t column, back;  /* the first reads input pixel `column`, each next one `back` pixels before */
} taps_t;

static int32_t common_divisor(int32_t a, int32_t b)
{
    while (b != 0) {
        int32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The first tap that reaches x exactly; `first` is kernel_w if none does. */
static void find_taps(const cortado_transpose_conv2d_t *L, int32_t x, taps_t *taps)
{
    int32_t at = x + L->pad_left, kx = 0;
    while (kx < L->kernel_w && at >= 0 && at % L->stride_w != 0) {
        at -= L->dilation_w;
        kx++;
    }
    if (at < 0) {
        kx = L->kernel_w;
    }
    taps->first = kx;
    taps->column = at / L->stride_w;
}

/* The sum over the taps for one output channel whose group reads input channels c, c + 1, ... */
static int32_t tap_sum(const cortado_transpose_conv2d_t *L, const int8_t *const rows[], const taps_t *taps, int32_t c,
                       const int8_t *w)
{
    const int32_t depth = L->in_c / L->groups;
    int32_t sum = 0;
    for (int32_t ky = 0; ky < L->kernel_h; ky++, w += L->kernel_w * depth) {
        int32_t column = taps->column;
        if (rows[ky] == NULL) {
            continue;
        }
        for (int32_t kx = taps->first; kx < L->kernel_w && column >= 0; kx += taps->step, column -= taps->back) {
            if (column < L->in_w) {
                sum += cortado_dot_offset(rows[ky] + column * L->in_c + c, L->in_offset, w + kx * depth, depth);
            }
        }
    }
    return sum;
}

void cortado_transpose_conv2d_s8(const cortado_transpose_conv2d_t *L, const int8_t *const rows[], int8_t *out,
                                 void *scratch)
{
    const int32_t depth = L->in_c / L->groups, group_out = L->out_c / L->groups;
    const int32_t size = L->kernel_h * L->kernel_w * depth;
    const int32_t common = common_divisor(L->stride_w, L->dilation_w);
    taps_t taps = {0, L->stride_w / common, 0, L->dilation_w / common};
    (void)scratch;
    for (int32_t x = 0; x < L->out_w; x++) {
        int32_t oc = 0;
        find_taps(L, x, &taps);
        for (int32_t c = 0; c < L->in_c; c += depth) {
            for (int32_t i = 0; i < group_out; i++, oc++) {
                int32_t v = tap_sum(L, rows, &taps, c, L->weights + oc * size);
                v += L->bias != NULL ? L->bias[oc] : 0;
                v = cortado_requant(v, L->multiplier[oc], L->shift[oc]) + L->out_offset;
                *out++ = (int8_t)cortado_clamp(v, L->act_min, L->act_max);
            }
        }
    }
}
