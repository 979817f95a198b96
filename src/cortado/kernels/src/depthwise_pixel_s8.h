/* SPDX-License-Identifier: Apache-2.0
 *
 * The heart of depthwise convolution on cores without vector instructions: all channels of one pixel, from pointers to
 * the pixels under its taps. Four channels at a time; the last four may overlap those before. Internal.
 *
 * The stream has, for each four channels: their biases, the weights, their factors. Weights are four bytes per tap, on
 * DSP cores eight bytes per two taps. With vector instructions it is sixteen channels: see depthwise_pixel_s8__mve.S.
 */
#ifndef DEPTHWISE_PIXEL_S8_H
#define DEPTHWISE_PIXEL_S8_H

#include "cortado.h"
#include "cortado_math.h"

#if CORTADO_SMALL_CORE || !defined(__ARM_FEATURE_DSP)
#define CORTADO_DEPTHWISE_TAPS 1
#else
#define CORTADO_DEPTHWISE_TAPS 2
#endif

/* depthwise_pixel_s8__scalar_dsp.S knows these offsets. */
typedef struct {
    const int8_t *stream;
    const int8_t *const *taps;
    const int8_t *const *taps_end;
    int32_t channels; /* at least 4 */
    int32_t offset, low, high;
} cortado_depthwise_pixel_t;

void CORTADO_ISA(cortado_depthwise_pixel_s8)(const cortado_depthwise_pixel_t *T, int8_t *out);
void cortado_depthwise_pixel_s8__mve(const cortado_depthwise_pixel_t *T, int8_t *out);
/* A run of pixels, `bytes` in all, whose taps lie together like their outputs. T->channels are those of as many pixels as
 * fit sixteen bytes, and the stream is theirs; a run shorter than that may be one pixel of any layer. */
void cortado_depthwise_few_pixels_s8__mve(const cortado_depthwise_pixel_t *T, int8_t *out, int32_t bytes);

/* Points the taps of one row at the window that starts at column `left`. Edges cost nothing: a tap outside the image
 * points to the zero-point pixel. */
static inline const int8_t **cortado_depthwise_point_row(const cortado_depthwise_t *L, const int8_t *row, int32_t left,
                                                    const int8_t **to)
{
    const int32_t step = L->dilation_w * L->in_c;
    int32_t at = left * L->in_c;
    for (int32_t kx = L->kernel_w; kx > 0; kx--) {
        *to++ = row != NULL && left >= 0 && left < L->in_w ? row + at : L->zero;
        left += L->dilation_w;
        at += step;
    }
    return to;
}

/* Points all taps at the window that starts at column `left`. If the one before, a stride to the left, was inside the row
 * (`was_inside`) and this one is too, the taps only move on. Returns whether it is. */
static inline int cortado_depthwise_point(const cortado_depthwise_t *L, const int8_t *const rows[], int32_t left,
                                     int was_inside, const int8_t **to)
{
    const int inside = left >= 0 && left + (L->kernel_w - 1) * L->dilation_w < L->in_w;
    const int32_t step = L->stride_w * L->in_c;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        if (!inside || !was_inside) {
            to = cortado_depthwise_point_row(L, rows[ky], left, to);
            continue;
        }
        if (rows[ky] == NULL) {
            to += L->kernel_w;
            continue;
        }
        for (int32_t kx = L->kernel_w; kx > 0; kx--) {
            *to++ += step;
        }
    }
    return inside;
}

#endif /* DEPTHWISE_PIXEL_S8_H */
