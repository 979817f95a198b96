/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution in float32: one output row, or a 1x1 window over a span of pixels.
 *
 * Tile: 1 pixel x 1 channel, of a depthwise layer 4. Scratch: none.
 */
#include "cortado_columns_f32.h"
#include "cortado_float.h"

/* The products of one run of channels, one after the other. */
static float added(float sum, const float *x, const float *w, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        sum = sum + cortado_f32_mul(x[i], w[i]);
    }
    return sum;
}

/* The taps of a window in the image; those outside of it add nothing. */
static float window_sum(const cortado_layer_f32_t *L, const int8_t *const rows[], int32_t left, int32_t channel,
                        const float *w, float sum)
{
    const int32_t depth = L->in_c / L->groups;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        for (int32_t kx = 0; kx < L->kernel_w; kx++, w += depth) {
            const int32_t x = left + kx * L->dilation_w;
            if (rows[ky] != NULL && x >= 0 && x < L->in_w) {
                sum = added(sum, cortado_numbers(rows[ky]) + x * L->in_c + channel, w, depth);
            }
        }
    }
    return sum;
}

/* Four channels of a depthwise layer, from `c` on. */
static void depthwise4(const cortado_layer_f32_t *L, const int8_t *const rows[], cortado_columns_f32_t inside,
                       int32_t c, float *out)
{
    const int32_t size = L->kernel_h * L->kernel_w, step = L->dilation_w * L->in_c;
    const int32_t from = (inside.left + inside.first * L->dilation_w) * L->in_c + c;
    const float *w = L->weights + c * size;
    float s0 = L->bias[c], s1 = L->bias[c + 1], s2 = L->bias[c + 2], s3 = L->bias[c + 3];
    for (int32_t ky = 0; ky < L->kernel_h; ky++, w += L->kernel_w) {
        if (rows[ky] == NULL) {
            continue;
        }
        const float *x = cortado_numbers(rows[ky]) + from, *w0 = w + inside.first;
        const float *w1 = w0 + size, *w2 = w1 + size, *w3 = w2 + size;
        for (int32_t k = inside.first; k < inside.end; k++, x += step) {
            s0 = s0 + cortado_f32_mul(x[0], *w0++);
            s1 = s1 + cortado_f32_mul(x[1], *w1++);
            s2 = s2 + cortado_f32_mul(x[2], *w2++);
            s3 = s3 + cortado_f32_mul(x[3], *w3++);
        }
    }
    out[0] = cortado_bounded(s0, L->act_min, L->act_max);
    out[1] = cortado_bounded(s1, L->act_min, L->act_max);
    out[2] = cortado_bounded(s2, L->act_min, L->act_max);
    out[3] = cortado_bounded(s3, L->act_min, L->act_max);
}

void cortado_conv2d_f32(const cortado_layer_f32_t *L, const int8_t *const rows[], float *out)
{
    const int32_t depth = L->in_c / L->groups, made = L->out_c / L->groups;
    const int32_t size = L->kernel_h * L->kernel_w * depth;
    for (int32_t x = 0; x < L->out_w; x++) {
        const int32_t left = x * L->stride_w - L->pad_left;
        int32_t c = 0;
        if (depth == 1 && made == 1) {
            const cortado_columns_f32_t inside = cortado_columns_f32(left, L->kernel_w, L->dilation_w, L->in_w);
            for (; c + 4 <= L->out_c; c += 4, out += 4) {
                depthwise4(L, rows, inside, c, out);
            }
        }
        for (; c < L->out_c; c++) {
            const float *w = L->weights + c * size;
            const float sum = window_sum(L, rows, left, c / made * depth, w, L->bias[c]);
            *out++ = cortado_bounded(sum, L->act_min, L->act_max);
        }
    }
}

void cortado_conv1x1_f32(const cortado_layer_f32_t *L, const float *in, float *out, int32_t pixels)
{
    for (; pixels > 0; pixels--, in += L->in_c) {
        const float *w = L->weights;
        for (int32_t c = 0; c < L->out_c; c++, w += L->in_c) {
            *out++ = cortado_bounded(added(L->bias[c], in, w, L->in_c), L->act_min, L->act_max);
        }
    }
}
