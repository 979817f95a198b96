/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolution of 16-bit codes by pointers to the pixels under the taps of a window. Internal. A tap outside
 * of the image points to zeros.
 */
#ifndef DEPTHWISE_PIXEL_S16_H
#define DEPTHWISE_PIXEL_S16_H

#if !defined(__ASSEMBLER__)
#include "cortado.h"
#include "cortado_math.h"
#include "cortado_wide.h"

/* The assembly reads all of it at once. */
typedef struct {
    const int16_t *const *taps;
    const int8_t *stream;
    int32_t count;    /* of the taps */
    int32_t channels; /* at least 8, without vector instructions 4 */
    int32_t low, high;
} cortado_wide_pixel_t;

CORTADO_AT(cortado_wide_pixel_t, taps, 0);
CORTADO_AT(cortado_wide_pixel_t, stream, 4);
CORTADO_AT(cortado_wide_pixel_t, count, 8);
CORTADO_AT(cortado_wide_pixel_t, channels, 12);
CORTADO_AT(cortado_wide_pixel_t, low, 16);
CORTADO_AT(cortado_wide_pixel_t, high, 20);

/* Any window; one of nine taps over a multiple of eight channels. */
void cortado_depthwise_pixel_s16__mve(const cortado_wide_pixel_t *P, int16_t *out);
void cortado_depthwise_nine_s16__mve(const cortado_wide_pixel_t *P, int16_t *out);
/* Any window on small cores; one of nine taps with DSP instructions. */
void cortado_depthwise_pixel_s16__scalar(const cortado_wide_pixel_t *P, int16_t *out);
void cortado_depthwise_nine_s16__dsp(const cortado_wide_pixel_t *P, int16_t *out);

/* Points the taps of one row at the window that starts at column `left`. */
static inline const int16_t **cortado_wide_point_row(const cortado_layer_s16_packed_t *L, const int16_t *row,
                                                     int32_t left, const int16_t **to)
{
    const uint32_t columns = row != NULL ? (uint32_t)L->in_w : 0U; /* a column left of them is a large one */
    const int32_t dilation = L->dilation_w, step = dilation * L->in_c;
    const int16_t *const zero = L->zero;
    int32_t at = left * L->in_c;
    for (int32_t kx = L->kernel_w; kx > 0; kx--) {
        *to++ = (uint32_t)left < columns ? row + at : zero;
        left += dilation;
        at += step;
    }
    return to;
}

/* Points all taps at the window that starts at column `left`; they only move on if the one before, a stride to the
 * left, was inside the row (`was_inside`) and this one is too. Returns whether it is. */
static inline int cortado_wide_point(const cortado_layer_s16_packed_t *L, const int8_t *const rows[], int32_t left,
                                     int was_inside, const int16_t **to)
{
    const int inside = left >= 0 && left + (L->kernel_w - 1) * L->dilation_w < L->in_w;
    const int32_t step = L->stride_w * L->in_c;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        if (!inside || !was_inside) {
            to = cortado_wide_point_row(L, cortado_wide_row(rows[ky]), left, to);
            continue;
        }
        if (rows[ky] == NULL) {
            to += L->kernel_w;
            continue;
        }
        if (L->kernel_w == 3) {
            to[0] += step;
            to[1] += step;
            to[2] += step;
            to += 3;
            continue;
        }
        for (int32_t kx = L->kernel_w; kx > 0; kx--) {
            *to++ += step;
            CORTADO_STAY_A_LOOP;
        }
    }
    return inside;
}
#endif

#endif /* DEPTHWISE_PIXEL_S16_H */
