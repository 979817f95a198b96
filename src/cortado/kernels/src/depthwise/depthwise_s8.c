/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolution, one output row, four channels at a time where each input channel has one filter.
 *
 * Tile: 1 pixel x 4 channels, else 1 pixel x 1 channel. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

/* bias + in_offset * (sum of the channel's weights): the same for every pixel. */
static int32_t start_value(const cortado_depthwise_t *L, int32_t oc)
{
    int32_t sum = L->bias != NULL ? L->bias[oc] : 0;
    if (L->in_offset != 0) {
        const int8_t *w = L->weights + oc;
        int32_t weights = 0;
        for (int32_t i = L->kernel_h * L->kernel_w; i > 0; i--) {
            weights += *w;
            w += L->out_c;
        }
        sum += L->in_offset * weights;
    }
    return sum;
}

/* A pixel under the window; those outside of the image are zero points. */
static inline const int8_t *pixel(const cortado_depthwise_t *L, const int8_t *row, int32_t at)
{
    return row != NULL && at >= 0 && at < L->in_w ? row + at * L->in_c : L->zero;
}

/* The sum over the window whose leftmost column is `left`, for one input channel c and its weights w. */
static int32_t window_sum(const cortado_depthwise_t *L, const int8_t *const rows[], int32_t left, int32_t c,
                          const int8_t *w)
{
    const int32_t step = L->dilation_w * L->in_c;
    const int inside = left >= 0 && left + (L->kernel_w - 1) * L->dilation_w < L->in_w;
    int32_t sum = 0;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        const int8_t *row = rows[ky];
        if (inside && row != NULL) {
            const int8_t *x = row + left * L->in_c + c;
            for (int32_t kx = L->kernel_w; kx > 0; kx--) {
                sum += *x * *w;
                x += step;
                w += L->out_c;
            }
            continue;
        }
        int32_t at = left;
        for (int32_t kx = L->kernel_w; kx > 0; kx--) {
            const int8_t *x = pixel(L, row, at);
            sum += x[c] * *w;
            at += L->dilation_w;
            w += L->out_c;
        }
    }
    return sum;
}

/* The products of four channels of one tap, added to their sums. */
static void add_four(int32_t sums[4], const int8_t *x, const int8_t *w)
{
    sums[0] += x[0] * w[0];
    sums[1] += x[1] * w[1];
    sums[2] += x[2] * w[2];
    sums[3] += x[3] * w[3];
}

/* The window whose leftmost column is `left`, for the four channels from c on. */
static void add_window(int32_t sums[4], const cortado_depthwise_t *L, const int8_t *const rows[], int32_t left,
                       int32_t c)
{
    const int8_t *w = L->weights + c;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        const int8_t *row = rows[ky];
        int32_t at = left;
        for (int32_t kx = L->kernel_w; kx > 0; kx--) {
            const int8_t *x = pixel(L, row, at);
            add_four(sums, x + c, w);
            at += L->dilation_w;
            w += L->out_c;
        }
    }
}

static void four_channels(const cortado_depthwise_t *L, const int8_t *const rows[], int8_t *out, int32_t c)
{
    const int32_t start[4] = {start_value(L, c), start_value(L, c + 1), start_value(L, c + 2), start_value(L, c + 3)};
    int32_t left = -L->pad_left;
    int8_t *to = out + c;
    for (int32_t x = L->out_w; x > 0; x--) {
        int32_t sums[4] = {start[0], start[1], start[2], start[3]};
        add_window(sums, L, rows, left, c);
        for (int32_t i = 0; i < 4; i++) {
            const int32_t v = cortado_requant(sums[i], L->multiplier[c + i], L->shift[c + i]) + L->out_offset;
            to[i] = (int8_t)cortado_clamp(v, L->act_min, L->act_max);
        }
        to += L->out_c;
        left += L->stride_w;
    }
}

static void one_channel(const cortado_depthwise_t *L, const int8_t *const rows[], int8_t *out, int32_t c, int32_t oc)
{
    const int32_t start = start_value(L, oc), multiplier = L->multiplier[oc], shift = L->shift[oc];
    const int8_t *w = L->weights + oc;
    int32_t left = -L->pad_left;
    int8_t *to = out + oc;
    for (int32_t x = L->out_w; x > 0; x--) {
        int32_t v = start + window_sum(L, rows, left, c, w);
        v = cortado_requant(v, multiplier, shift) + L->out_offset;
        *to = (int8_t)cortado_clamp(v, L->act_min, L->act_max);
        to += L->out_c;
        left += L->stride_w;
    }
}

void cortado_depthwise_s8(const cortado_depthwise_t *L, const int8_t *const rows[], int8_t *out, void *scratch)
{
    int32_t c = 0;
    (void)scratch;
    if (L->depth_multiplier == 1) {
        for (; c + 4 <= L->in_c; c += 4) {
            four_channels(L, rows, out, c);
        }
    }
    for (int32_t oc = c * L->depth_multiplier; c < L->in_c; c++) {
        for (int32_t m = 0; m < L->depth_multiplier; m++, oc++) {
            one_channel(L, rows, out, c, oc);
        }
    }
}
