/* SPDX-License-Identifier: Apache-2.0
 *
 * Average and maximum pooling of 16-bit codes, one output row: per pixel, per channel, over the window in the image.
 *
 * Tile: 1 pixel x 1 channel. Scratch: none.
 */
#include "cortado_wide.h"

/* What one channel has under the window: its sum, its largest code, and how many there are. */
typedef struct {
    int32_t sum, largest, count;
} under_t;

static inline void look(under_t *found, const int16_t *p, int32_t step, int32_t n)
{
    found->count += n;
    for (; n > 0; n--, p += step) {
        found->sum += *p;
        found->largest = cortado_max(found->largest, *p);
    }
}

/* The taps first .. last - 1 of each row are inside of the image. */
static under_t window(const cortado_pool2d_t *L, const int8_t *const rows[], int32_t left, int32_t c)
{
    const int32_t dilation = L->dilation_w, first = left < 0 ? (dilation - 1 - left) / dilation : 0;
    const int32_t last = cortado_min((L->in_w - left + dilation - 1) / dilation, L->kernel_w);
    under_t found = {0, L->act_min, 0};
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        if (rows[ky] != NULL) {
            const int16_t *p = cortado_wide_row(rows[ky]) + (left + first * dilation) * L->channels + c;
            look(&found, p, dilation * L->channels, last - first);
        }
    }
    return found;
}

void cortado_max_pool2d_s16(const cortado_pool2d_t *L, const int8_t *const rows[], int16_t *out)
{
    for (int32_t x = 0; x < L->out_w; x++) {
        for (int32_t c = 0; c < L->channels; c++) {
            const under_t found = window(L, rows, x * L->stride_w - L->pad_left, c);
            *out++ = (int16_t)cortado_min(found.largest, L->act_max);
        }
    }
}

void cortado_avg_pool2d_s16(const cortado_pool2d_t *L, const int8_t *const rows[], int16_t *out, void *scratch)
{
    (void)scratch;
    for (int32_t x = 0; x < L->out_w; x++) {
        for (int32_t c = 0; c < L->channels; c++) {
            const under_t found = window(L, rows, x * L->stride_w - L->pad_left, c);
            *out++ = (int16_t)cortado_divide_round(found.sum, found.count);
        }
    }
}
