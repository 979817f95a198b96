/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution with 4-bit weights: one output row, or a 1x1 window over a span of pixels.
 *
 * Tile: 1 pixel x 1 channel. Scratch: none.
 */
#include "cortado_math.h"
#include "cortado_narrow.h"

/* The progress of one output's sum: next weight, products left in the run, sum of the run, sum of all runs. */
typedef struct {
    const uint8_t *weights, *factors;
    int32_t upper; /* whether the next weight is the upper half of a byte */
    int32_t left, run, sum;
} output_t;

static inline int32_t lower_half(uint8_t both) { return (int32_t)((uint32_t)both << 28) >> 28; }
static inline int32_t upper_half(uint8_t both) { return (int32_t)((uint32_t)both << 24) >> 28; }

/* n products within a run. */
static int32_t products(output_t *o, const int8_t *x, int32_t n)
{
    const uint8_t *w = o->weights;
    int32_t sum = 0;
    if (o->upper != 0 && n > 0) {
        sum += *x++ * upper_half(*w++);
        n--;
        o->upper = 0;
    }
    for (; n >= 2; n -= 2, x += 2, w++) {
        sum += x[0] * lower_half(*w) + x[1] * upper_half(*w);
    }
    if (n > 0) {
        sum += *x * lower_half(*w);
        o->upper = 1;
    }
    o->weights = w;
    return sum;
}

static void add(output_t *o, const int8_t *x, int32_t n)
{
    if (o->factors == NULL) {
        o->sum += products(o, x, n);
        return;
    }
    while (n > 0) {
        const int32_t now = cortado_min(n, o->left);
        o->run += products(o, x, now);
        x += now;
        n -= now;
        o->left -= now;
        if (o->left == 0) {
            o->sum += o->run * *o->factors++;
            o->left = CORTADO_NARROW_RUN;
            o->run = 0;
        }
    }
}

static output_t start(const cortado_narrow_t *L, int32_t channel)
{
    const int32_t size = L->kernel_h * L->kernel_w * L->in_c;
    const int32_t runs = (size + CORTADO_NARROW_RUN - 1) / CORTADO_NARROW_RUN;
    const uint8_t *const factors = L->factors == NULL ? NULL : L->factors + channel * runs;
    const output_t o = {L->weights + channel * ((size + 1) / 2), factors, 0, CORTADO_NARROW_RUN, 0, L->bias[channel]};
    return o;
}

static void finish(const cortado_narrow_t *L, const output_t *o, int32_t channel, int8_t *out)
{
    const int32_t sum = o->left < CORTADO_NARROW_RUN ? o->sum + o->run * *o->factors : o->sum;
    const int32_t v = cortado_requant(sum, L->multiplier[channel], L->shift[channel]) + L->out_offset;
    out[channel] = (int8_t)cortado_clamp(v, L->act_min, L->act_max);
}

/* The taps of one row of the window. */
static void add_row(const cortado_narrow_t *L, const int8_t *row, int32_t left, output_t *o)
{
    if (row != NULL && L->dilation_w == 1 && left >= 0 && left + L->kernel_w <= L->in_w) {
        add(o, row + left * L->in_c, L->kernel_w * L->in_c);
        return;
    }
    for (int32_t kx = 0; kx < L->kernel_w; kx++) {
        const int32_t x = left + kx * L->dilation_w;
        add(o, row != NULL && x >= 0 && x < L->in_w ? row + x * L->in_c : L->zero, L->in_c);
    }
}

void cortado_conv2d_narrow_s8(const cortado_narrow_t *L, const int8_t *const rows[], int8_t *out, void *scratch)
{
    (void)scratch;
    for (int32_t channel = 0; channel < L->out_c; channel++) {
        for (int32_t x = 0; x < L->out_w; x++) {
            output_t o = start(L, channel);
            for (int32_t ky = 0; ky < L->kernel_h; ky++) {
                add_row(L, rows[ky], x * L->stride_w - L->pad_left, &o);
            }
            finish(L, &o, channel, out + x * L->out_c);
        }
    }
}

void cortado_conv1x1_narrow_s8(const cortado_narrow_t *L, const int8_t *in, int8_t *out, int32_t pixels, void *scratch)
{
    (void)scratch;
    for (int32_t channel = 0; channel < L->out_c; channel++) {
        for (int32_t pixel = 0; pixel < pixels; pixel++) {
            output_t o = start(L, channel);
            add(&o, in + pixel * L->in_c, L->in_c);
            finish(L, &o, channel, out + pixel * L->out_c);
        }
    }
}
