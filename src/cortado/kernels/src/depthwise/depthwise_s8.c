/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolution, one output row, channel by channel.
 *
 * Tile: 1 pixel x 1 channel. Scratch: none.
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
            const int8_t *x = row != NULL && at >= 0 && at < L->in_w ? row + at * L->in_c : L->zero;
            sum += x[c] * *w;
            at += L->dilation_w;
            w += L->out_c;
        }
    }
    return sum;
}

void cortado_depthwise_s8(const cortado_depthwise_t *L, const int8_t *const rows[], int8_t *out, void *scratch)
{
    int32_t oc = 0;
    (void)scratch;
    for (int32_t c = 0; c < L->in_c; c++) {
        for (int32_t m = 0; m < L->depth_multiplier; m++, oc++) {
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
    }
}
