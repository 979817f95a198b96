/* SPDX-License-Identifier: Apache-2.0
 *
 * 3x3 depthwise convolution with vector instructions: see depthwise3x3_pixels_s8__mve.h.
 *
 * Tile: 1 pixel x 16 channels. Scratch: none.
 */
#include "depthwise3x3_pixels_s8__mve.h"

#if defined(__ARM_FEATURE_MVE)

/* Points the nine taps at the window that starts at column `left`; taps outside the image read the zero point. */
static void point(const cortado_depthwise_packed_t *L, const int8_t *const rows[], int32_t left,
                  cortado_depthwise3x3_pixels_t *nine)
{
    const int8_t **to = nine->taps;
    for (int32_t ky = 0; ky < 3; ky++) {
        for (int32_t kx = 0, x = left; kx < 3; kx++, x += L->dilation_w) {
            *to++ = rows[ky] != NULL && x >= 0 && x < L->in_w ? rows[ky] + x * L->in_c : L->zero;
        }
    }
}

void cortado_depthwise3x3_s8__mve(const cortado_depthwise_packed_t *L, const int8_t *const rows[], int8_t *out,
                                  void *scratch)
{
    const int32_t channels = L->in_c, reach = 2 * L->dilation_w;
    cortado_depthwise3x3_pixels_t nine; /* filled field by field: an initializer may become a call */
    (void)scratch;
    nine.stream = L->weights;
    nine.channels = channels;
    nine.offset = L->out_offset;
    nine.low = L->act_min;
    nine.high = L->act_max;
    for (int32_t ky = 0; ky < 3; ky++) {
        /* A pixel moves its taps on by its channels; those of a row outside the image go back to where they were. */
        nine.skip[ky] = rows[ky] != NULL ? (L->stride_w - 1) * channels : -channels;
    }
    for (int32_t x = 0, n; x < L->out_w; x += n) {
        const int32_t left = x * L->stride_w - L->pad_left, space = L->in_w - 1 - reach - left;
        point(L, rows, left, &nine);
        /* Pixels whose windows are inside the row, or one at its edge. */
        n = left >= 0 && space >= 0 ? cortado_min(space / L->stride_w + 1, L->out_w - x) : 1;
        cortado_depthwise3x3_pixels_s8__mve(&nine, out, n);
        out += n * channels;
    }
}
#else
typedef int cortado_depthwise3x3_needs_mve; /* an empty translation unit is not C */
#endif
