/* SPDX-License-Identifier: Apache-2.0
 *
 * 1x1 convolution and linear layers: a tile of 2 pixels x 2 output channels at a time.
 *
 * Tile: 2 pixels x 2 channels. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

static int32_t start_value(const cortado_conv1x1_t *L, const int8_t *w, int32_t oc)
{
    int32_t sum = L->bias != NULL ? L->bias[oc] : 0;
    if (L->in_offset != 0) {
        int32_t weights = 0;
        for (int32_t i = 0; i < L->in_c; i++) {
            weights += w[i];
        }
        sum += L->in_offset * weights;
    }
    return sum;
}

static inline void finish(const cortado_conv1x1_t *L, int32_t sum, int32_t oc, int8_t *out)
{
    int32_t v = cortado_requant(sum, L->multiplier[oc], L->shift[oc]) + L->out_offset;
    out[oc] = (int8_t)cortado_clamp(v, L->act_min, L->act_max);
}

/* Two pixels, two channels. */
static inline void two_pixels(const cortado_conv1x1_t *L, const int8_t *x0, const int8_t *w0, const int8_t *w1,
                              int32_t sum[4])
{
    const int8_t *x1 = x0 + L->in_c, *end = x1;
    int32_t s00 = sum[0], s01 = sum[1], s10 = sum[0], s11 = sum[1];
    while (x0 != end) {
        int32_t a = *x0++, b = *x1++, u = *w0++, v = *w1++;
        s00 += a * u;
        s01 += a * v;
        s10 += b * u;
        s11 += b * v;
    }
    sum[0] = s00;
    sum[1] = s01;
    sum[2] = s10;
    sum[3] = s11;
}

/* One pixel, two channels: the odd pixel at the end, and every linear layer. */
static inline void one_pixel(const cortado_conv1x1_t *L, const int8_t *x, const int8_t *w0, const int8_t *w1,
                             int32_t sum[2])
{
    const int8_t *end = x + L->in_c;
    int32_t s0 = sum[0], s1 = sum[1];
    while (x != end) {
        int32_t a = *x++;
        s0 += a * *w0++;
        s1 += a * *w1++;
    }
    sum[0] = s0;
    sum[1] = s1;
}

void cortado_conv1x1_s8(const cortado_conv1x1_t *L, const int8_t *in, int8_t *out, int32_t pixels, void *scratch)
{
    (void)scratch;
    for (int32_t oc = 0; oc < L->out_c; oc += 2) {
        /* An odd last channel fills the tile by being computed twice. */
        const int32_t oc1 = cortado_min(oc + 1, L->out_c - 1);
        const int8_t *w0 = L->weights + oc * L->in_c, *w1 = L->weights + oc1 * L->in_c, *x = in;
        const int32_t start0 = start_value(L, w0, oc), start1 = start_value(L, w1, oc1);
        int8_t *to = out;
        int32_t left = pixels;
        for (; left >= 2; left -= 2) {
            int32_t sum[4] = {start0, start1, 0, 0};
            two_pixels(L, x, w0, w1, sum);
            finish(L, sum[0], oc, to);
            finish(L, sum[1], oc1, to);
            to += L->out_c;
            finish(L, sum[2], oc, to);
            finish(L, sum[3], oc1, to);
            to += L->out_c;
            x += 2 * L->in_c;
        }
        if (left != 0) {
            int32_t sum[2] = {start0, start1};
            one_pixel(L, x, w0, w1, sum);
            finish(L, sum[0], oc, to);
            finish(L, sum[1], oc1, to);
        }
    }
}
