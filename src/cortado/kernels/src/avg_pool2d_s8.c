/* SPDX-License-Identifier: Apache-2.0
 *
 * Average pooling, one output row: per pixel, four channels at a time where their sums fit.
 */
#include "cortado.h"
#include "cortado_sums4.h"

/* A window: where it starts in each row, how many pixels it has there and in all, and how to divide by that. */
typedef struct {
    int32_t first, width, count;
    uint32_t inverse; /* 2^24 / count, rounded up */
} window_t;

/* sum / count, ties away from zero. 0 for a window with no pixel inside. */
static inline int32_t mean_of(const window_t *W, int32_t sum)
{
#if CORTADO_SMALL_CORE
    /* No divide instruction: exact while 129 * count^2 < 2^24, because |sum| + count / 2 < 129 * count. */
    if (W->count <= 360) {
        const uint32_t size = (uint32_t)(sum < 0 ? -sum : sum) + (uint32_t)W->count / 2;
        const int32_t mean = (int32_t)((size * W->inverse) >> 24);
        return sum < 0 ? -mean : mean;
    }
#endif
    return W->count > 0 ? cortado_divide_round(sum, W->count) : 0;
}

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
        const int32_t mean = mean_of(W, cortado_sums4_of(sums, i, W->count));
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
    *out = (int8_t)cortado_clamp(mean_of(W, sum), L->act_min, L->act_max);
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
        window.count = window.width * inside_rows;
        window.inverse = window.count > 0 ? 0xFFFFFFu / (uint32_t)window.count + 1 : 0;
        for (; fours && c + 4 <= L->channels && window.count <= CORTADO_SUMS4_MOST; c += 4) {
            four_channels(L, rows, &window, c, out + c);
        }
        for (; c < L->channels; c++) {
            one_channel(L, rows, &window, c, out + c);
        }
        out += L->channels;
    }
}
