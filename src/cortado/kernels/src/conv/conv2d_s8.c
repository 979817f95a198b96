/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution, one output row: a tile of 2 pixels x 2 output channels at a time.
 *
 * Tile: 2 pixels x 2 channels. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

/* The four sums of a tile: pixel p, channel c at 2 * p + c. */
typedef struct {
    int32_t sum[4];
} tile_t;

static inline void multiply_add(tile_t *t, const int8_t *x0, const int8_t *x1, const int8_t *w0, const int8_t *w1,
                                int32_t n)
{
    int32_t s00 = t->sum[0], s01 = t->sum[1], s10 = t->sum[2], s11 = t->sum[3];
    for (int32_t i = 0; i < n; i++) {
        int32_t a = x0[i], b = x1[i], u = w0[i], v = w1[i];
        s00 += a * u;
        s01 += a * v;
        s10 += b * u;
        s11 += b * v;
    }
    t->sum[0] = s00;
    t->sum[1] = s01;
    t->sum[2] = s10;
    t->sum[3] = s11;
}

/* The pixel under a tap: inside the row, or the constant zero-point pixel. */
static inline const int8_t *tap(const cortado_conv2d_t *L, const int8_t *row, int32_t x)
{
    return row != NULL && x >= 0 && x < L->in_w ? row + x * L->in_c : L->zero;
}

/* Adds all taps for the output pixels x and x + next (next is 0 or 1), with the group's channels starting at c. */
static void add_taps(const cortado_conv2d_t *L, const int8_t *const rows[], int32_t x, int32_t next, int32_t c,
                     const int8_t *w0, const int8_t *w1, tile_t *t)
{
    const int32_t depth = L->in_c / L->groups;
    const int32_t left = x * L->stride_w - L->pad_left, step = next * L->stride_w;
    const int32_t span = (L->kernel_w - 1) * L->dilation_w;
    /* A window inside the image is one run of bytes per row. */
    const int inside = L->dilation_w == 1 && L->groups == 1 && left >= 0 && left + step + span < L->in_w;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        const int8_t *row = rows[ky];
        if (inside && row != NULL) {
            const int8_t *x0 = row + left * L->in_c;
            const int32_t n = L->kernel_w * depth;
            multiply_add(t, x0, x0 + step * L->in_c, w0, w1, n);
            w0 += n;
            w1 += n;
            continue;
        }
        for (int32_t kx = 0; kx < L->kernel_w; kx++) {
            const int32_t at = left + kx * L->dilation_w;
            multiply_add(t, tap(L, row, at) + c, tap(L, row, at + step) + c, w0, w1, depth);
            w0 += depth;
            w1 += depth;
        }
    }
}

static int32_t start_value(const cortado_conv2d_t *L, const int8_t *w, int32_t n, int32_t oc)
{
    int32_t sum = L->bias != NULL ? L->bias[oc] : 0;
    if (L->in_offset != 0) {
        int32_t weights = 0;
        for (int32_t i = 0; i < n; i++) {
            weights += w[i];
        }
        sum += L->in_offset * weights;
    }
    return sum;
}

static inline void finish(const cortado_conv2d_t *L, int32_t sum, int32_t oc, int8_t *out)
{
    int32_t v = cortado_requant(sum, L->multiplier[oc], L->shift[oc]) + L->out_offset;
    *out = (int8_t)cortado_clamp(v, L->act_min, L->act_max);
}

void cortado_conv2d_s8(const cortado_conv2d_t *L, const int8_t *const rows[], int8_t *out, void *scratch)
{
    const int32_t depth = L->in_c / L->groups, group_out = L->out_c / L->groups;
    const int32_t size = L->kernel_h * L->kernel_w * depth;
    (void)scratch;
    for (int32_t group = 0; group < L->groups; group++) {
        const int32_t end = (group + 1) * group_out;
        for (int32_t oc = group * group_out; oc < end; oc += 2) {
            /* An odd last channel or pixel fills the tile by being computed twice. */
            const int32_t oc1 = cortado_min(oc + 1, end - 1);
            const int8_t *w0 = L->weights + oc * size, *w1 = L->weights + oc1 * size;
            const int32_t start0 = start_value(L, w0, size, oc), start1 = start_value(L, w1, size, oc1);
            for (int32_t x = 0; x < L->out_w; x += 2) {
                tile_t t = {{start0, start1, start0, start1}};
                int8_t *pixel = out + x * L->out_c;
                const int32_t next = x + 1 < L->out_w;
                add_taps(L, rows, x, next, group * depth, w0, w1, &t);
                finish(L, t.sum[0], oc, pixel + oc);
                finish(L, t.sum[1], oc1, pixel + oc1);
                if (next != 0) {
                    finish(L, t.sum[2], oc, pixel + L->out_c + oc);
                    finish(L, t.sum[3], oc1, pixel + L->out_c + oc1);
                }
            }
        }
    }
}
