/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution in float32 with weights that are codes of 8 bits: one output row, or a 1x1 window over a span of pixels.
 *
 * Tile: 1 pixel x 4 channels. Scratch: none.
 */
#include "cortado_columns_f32.h"
#include "cortado_float.h"

/* The products of one run of channels, one after the other, of four outputs whose weights lie `size` apart. */
static inline void add4(float sums[4], const float *x, const int8_t *w, int32_t size, int32_t n)
{
    const int8_t *const w1 = w + size, *const w2 = w1 + size, *const w3 = w2 + size;
    float a = sums[0], b = sums[1], c = sums[2], d = sums[3];
    for (int32_t i = 0; i < n; i++) {
        const float v = x[i];
        a = a + cortado_f32_mul(v, (float)w[i]);
        b = b + cortado_f32_mul(v, (float)w1[i]);
        c = c + cortado_f32_mul(v, (float)w2[i]);
        d = d + cortado_f32_mul(v, (float)w3[i]);
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
}

static inline void add1(float sums[4], const float *x, const int8_t *w, int32_t n)
{
    float sum = sums[0];
    for (int32_t i = 0; i < n; i++) {
        sum = sum + cortado_f32_mul(x[i], (float)w[i]);
    }
    sums[0] = sum;
}

static inline void add(float sums[4], const float *x, const int8_t *w, int32_t size, int32_t n, int32_t channels)
{
    if (channels == 4) {
        add4(sums, x, w, size, n);
    } else {
        add1(sums, x, w, n);
    }
}

/* Stores output `c` and the ones after it. */
static void finish(const cortado_layer_codes_f32_t *L, const float sums[4], int32_t c, int32_t channels, float *out)
{
    for (int32_t i = 0; i < channels; i++) {
        const float real = cortado_f32_mul(sums[i], L->scale[c + i]) + L->bias[c + i];
        out[c + i] = cortado_bounded(real, L->act_min, L->act_max);
    }
}

/* The taps of a window in the image; those outside of it add nothing. */
static void window_sums(const cortado_layer_codes_f32_t *L, const int8_t *const rows[], int32_t left, int32_t channel,
                        const int8_t *w, float sums[4], int32_t channels)
{
    const int32_t depth = L->in_c / L->groups, size = L->kernel_h * L->kernel_w * depth;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        for (int32_t kx = 0; kx < L->kernel_w; kx++, w += depth) {
            const int32_t x = left + kx * L->dilation_w;
            if (rows[ky] != NULL && x >= 0 && x < L->in_w) {
                add(sums, cortado_numbers(rows[ky]) + x * L->in_c + channel, w, size, depth, channels);
            }
        }
    }
}

/* Four channels of a depthwise layer, from `c` on. */
static void depthwise4(const cortado_layer_codes_f32_t *L, const int8_t *const rows[], cortado_columns_f32_t inside,
                       int32_t c, float sums[4])
{
    const int32_t size = L->kernel_h * L->kernel_w, step = L->dilation_w * L->in_c;
    const int32_t from = (inside.left + inside.first * L->dilation_w) * L->in_c + c;
    const int8_t *w = L->weights + c * size;
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    for (int32_t ky = 0; ky < L->kernel_h; ky++, w += L->kernel_w) {
        if (rows[ky] == NULL) {
            continue;
        }
        const float *x = cortado_numbers(rows[ky]) + from;
        const int8_t *w0 = w + inside.first, *w1 = w0 + size, *w2 = w1 + size, *w3 = w2 + size;
        for (int32_t k = inside.first; k < inside.end; k++, x += step) {
            s0 = s0 + cortado_f32_mul(x[0], (float)*w0++);
            s1 = s1 + cortado_f32_mul(x[1], (float)*w1++);
            s2 = s2 + cortado_f32_mul(x[2], (float)*w2++);
            s3 = s3 + cortado_f32_mul(x[3], (float)*w3++);
        }
    }
    sums[0] = s0;
    sums[1] = s1;
    sums[2] = s2;
    sums[3] = s3;
}

void cortado_conv2d_codes_f32(const cortado_layer_codes_f32_t *L, const int8_t *const rows[], float *out)
{
    const int32_t depth = L->in_c / L->groups, made = L->out_c / L->groups;
    const int32_t size = L->kernel_h * L->kernel_w * depth;
    for (int32_t x = 0; x < L->out_w; x++, out += L->out_c) {
        const int32_t left = x * L->stride_w - L->pad_left;
        int32_t c = 0, channels;
        if (depth == 1 && made == 1) {
            const cortado_columns_f32_t inside = cortado_columns_f32(left, L->kernel_w, L->dilation_w, L->in_w);
            for (; c + 4 <= L->out_c; c += 4) {
                float sums[4];
                depthwise4(L, rows, inside, c, sums);
                finish(L, sums, c, 4, out);
            }
        }
        for (; c < L->out_c; c += channels) {
            float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            channels = c % made + 4 <= made ? 4 : 1; /* of one group */
            window_sums(L, rows, left, c / made * depth, L->weights + c * size, sums, channels);
            finish(L, sums, c, channels, out);
        }
    }
}

void cortado_conv1x1_codes_f32(const cortado_layer_codes_f32_t *L, const float *in, float *out, int32_t pixels)
{
    for (; pixels > 0; pixels--, in += L->in_c, out += L->out_c) {
        for (int32_t c = 0, channels; c < L->out_c; c += channels) {
            float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            channels = c + 4 <= L->out_c ? 4 : 1;
            add(sums, in, L->weights + c * L->in_c, L->in_c, L->in_c, channels);
            finish(L, sums, c, channels, out);
        }
    }
}
