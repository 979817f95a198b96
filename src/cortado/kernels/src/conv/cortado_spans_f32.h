/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of windows and spans of pixels, two by two. Internal. Included behind cortado_pixels_f32.h or
 * cortado_code_pixels_f32.h.
 */
#ifndef CORTADO_SPANS_F32_H
#define CORTADO_SPANS_F32_H

#include "cortado_copy_f32.h"

/* The window from column `left` on, without gaps: zeros outside of the image, which add nothing to a sum that isn't -0.
 * Taps side by side are one run. */
static inline void cortado_window_f32(const cortado_layer_f32_packed_t *L, const int8_t *const rows[], int32_t left,
                                      float *to)
{
    const int32_t run = L->dilation_w == 1 ? L->in_w : 0;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        for (int32_t kx = 0, x = left; kx < L->kernel_w;) {
            const int inside = rows[ky] != NULL && x >= 0 && x < L->in_w;
            const int32_t taps = inside && x < run ? cortado_min(L->kernel_w - kx, run - x) : 1;
            const int32_t n = taps * L->in_c;
            if (inside) {
                cortado_copy_numbers(to, cortado_numbers(rows[ky]) + x * L->in_c, n);
            } else {
                for (int32_t i = 0; i < n; i++) {
                    to[i] = 0.0f;
                    CORTADO_STAY_A_LOOP;
                }
            }
            to += n;
            kx += taps;
            x += taps * L->dilation_w;
        }
    }
}

static inline void cortado_row_f32(const cortado_layer_f32_packed_t *L, const int8_t *const rows[], float *out,
                                   float *windows)
{
    const int32_t size = L->kernel_h * L->kernel_w * L->in_c;
    int32_t left = -L->pad_left, x = L->out_w;
    for (; x > 1; x -= 2, left += 2 * L->stride_w, out += 2 * L->out_c) {
        cortado_window_f32(L, rows, left, windows);
        cortado_window_f32(L, rows, left + L->stride_w, windows + size);
        cortado_pixels_f32(L, windows, windows + size, size, out);
    }
    if (x > 0) {
        cortado_window_f32(L, rows, left, windows);
        cortado_pixel_f32(L, windows, size, out);
    }
}

static inline void cortado_span_f32(const cortado_layer_f32_packed_t *L, const float *in, float *out, int32_t pixels)
{
    for (; pixels > 1; pixels -= 2, in += 2 * L->in_c, out += 2 * L->out_c) {
        cortado_pixels_f32(L, in, in + L->in_c, L->in_c, out);
    }
    if (pixels > 0) {
        cortado_pixel_f32(L, in, L->in_c, out);
    }
}

#endif /* CORTADO_SPANS_F32_H */
