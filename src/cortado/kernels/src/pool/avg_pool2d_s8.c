/* SPDX-License-Identifier: Apache-2.0
 *
 * Average pooling, one output row: per pixel, four channels at a time where their sums fit.
 *
 * Tile: 1 pixel x 4 channels. Scratch: none.
 */
#include "cortado.h"
#include "cortado_sums4.h"

/* A window: where it starts in each row, how many pixels it has there, and how to divide by those in all. */
typedef struct {
    int32_t first, width;
    cortado_mean_t mean;
} window_t;

static void four_channels(const cortado_pool2d_t *L, const int8_t *const rows[], const window_t *W, int32_t c,
                          int8_t *out)
{
    cortado_sums4_t sums = {0, 0};
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        if (rows[ky] != NULL) {
            sums = cortado_sums4_pixels(sums, rows[ky] + W->first * L->channels + c, L->channels, W->width);
        }
    }
    for (int32_t i = 0; i < 4; i++) {
        const int32_t mean = cortado_mean_of(W->mean, cortado_sums4_of(sums, i, W->mean.count));
        out[i] = (int8_t)cortado_clamp(mean, L->act_min, L->act_max);
    }
}

static void one_channel(const cortado_pool2d_t *L, const int8_t *const rows[], const window_t *W, int32_t c,
                        int8_t *out)
{
    int32_t sum = 0;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        if (rows[ky] != NULL) {
            const int8_t *p = rows[ky] + W->first * L->channels + c;
            for (int32_t kx = W->width; kx > 0; kx--) {
                sum += *p;
                p += L->channels;
            }
        }
    }
    *out = (int8_t)cortado_clamp(cortado_mean_of(W->mean, sum), L->act_min, L->act_max);
}

void cortado_avg_pool2d_s8(const cortado_pool2d_t *L, const int8_t *const rows[], int8_t *out, void *scratch)
{
    int32_t inside_rows = 0, left = -L->pad_left;
    (void)scratch;
    int fours = 1;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        inside_rows += rows[ky] != NULL;
        fours = fours && cortado_sums4_pays(rows[ky], L->channels);
    }
    for (int32_t x = L->out_w; x > 0; x--, left += L->stride_w) {
        window_t window;
        int32_t c = 0;
        window.first = cortado_max(left, 0);
        window.width = cortado_max(cortado_min(left + L->kernel_w, L->in_w) - window.first, 0);
        window.mean = cortado_mean(cortado_max(window.width * inside_rows, 1));
        for (; fours && c + 4 <= L->channels && window.mean.count <= CORTADO_SUMS4_MOST; c += 4) {
            four_channels(L, rows, &window, c, out + c);
        }
        for (; c < L->channels; c++) {
            one_channel(L, rows, &window, c, out + c);
        }
        out += L->channels;
    }
}
