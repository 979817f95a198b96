/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolution with several outputs of each channel, with vector instructions: sixteen channels of a pixel, or
 * as many pixels as fit a vector, at a time, once for each output.
 *
 * Tile: 1 pixel x 16 channels, or 16 / channels pixels. Scratch: a pointer per tap.
 */
#include "depthwise_pixel_s8.h"

#if defined(__ARM_FEATURE_MVE)

/* Points the taps at the window that starts at column `left`; one outside the image at the zero-point pixel. */
static void point(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int32_t left, const int8_t **to)
{
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        for (int32_t kx = 0, x = left; kx < L->kernel_w; kx++, x += L->dilation_w) {
            *to++ = rows[ky] != NULL && x >= 0 && x < L->in_w ? rows[ky] + x * L->in_c : L->zero;
        }
    }
}

void cortado_depthwise_several_s8__mve(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                       void *scratch)
{
    const int32_t channels = L->in_c, each = L->out_c / channels, taps = L->kernel_h * L->kernel_w;
    const int32_t reach = (L->kernel_w - 1) * L->dilation_w;
    const int few = channels < 16;
    cortado_depthwise_several_t P; /* filled field by field: an initializer may become a call */
    P.pixel.stream = L->weights;
    P.pixel.taps = scratch;
    P.pixel.taps_end = P.pixel.taps + taps;
    P.pixel.channels = few ? 16 / channels * channels : 16;
    P.pixel.offset = L->out_offset;
    P.pixel.low = L->act_min;
    P.pixel.high = L->act_max;
    P.each = each;
    P.back = few ? each * (16 * 4 + 16 * taps + 16 * 8) : 0;
    P.skip = (each - 1) * P.pixel.channels - each;
    P.out_step = L->out_c;
    P.step = L->stride_w * channels;
    int together = 1; /* whether windows inside the row are inside the image */
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        together = together && rows[ky] != NULL;
    }
    for (int32_t x = 0, n; x < L->out_w; x += n) {
        const int32_t left = x * L->stride_w - L->pad_left, space = L->in_w - 1 - reach - left;
        n = together && left >= 0 && space >= 0 ? cortado_min(space / L->stride_w + 1, L->out_w - x) : 1;
        const int32_t piece = few && L->stride_w == 1 ? n : 1; /* pixels */
        P.bytes = piece * channels;
        point(L, rows, left, scratch);
        cortado_depthwise_several_pixels_s8__mve(&P, out, n / piece);
        out += n * L->out_c;
    }
}
#else
typedef int cortado_depthwise_several_needs_mve; /* an empty translation unit is not C */
#endif
