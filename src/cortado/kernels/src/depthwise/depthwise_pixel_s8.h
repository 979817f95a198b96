/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of depthwise convolution: all channels of one pixel, from pointers to the pixels under its taps.
 * Internal. Four channels at a time, with vector instructions sixteen; the last ones may overlap those before. The
 * streams they read are described in depthwise_pixel_s8__scalar_dsp.S and depthwise_pixel_s8__mve.S.
 */
#ifndef DEPTHWISE_PIXEL_S8_H
#define DEPTHWISE_PIXEL_S8_H

#include "cortado_isa.h"

/* Members of cortado_depthwise_pixel_t, for the assembly. */
#define PIXEL_STREAM 0
#define PIXEL_TAPS 4 /* taps_end is read with it */
#define PIXEL_TAPS_END 8
#define PIXEL_CHANNELS 12
#define PIXEL_OFFSET 16 /* low and high are read with it */
#define PIXEL_HIGH 24
/* Those of cortado_depthwise_several_t. */
#define SEVERAL_EACH 28
#define SEVERAL_BACK 32 /* skip is read with it */
#define SEVERAL_BYTES 40
#define SEVERAL_OUT_STEP 44 /* step is read with it */

#if !defined(__ASSEMBLER__)
#include "cortado.h"
#include "cortado_math.h"

/* Taps that are multiplied together: their number is a multiple of it. */
#if CORTADO_SMALL_CORE || !defined(__ARM_FEATURE_DSP)
#define CORTADO_DEPTHWISE_TAPS 1
#else
#define CORTADO_DEPTHWISE_TAPS 2
#endif

typedef struct {
    const int8_t *stream;
    const int8_t *const *taps;
    const int8_t *const *taps_end;
    int32_t channels; /* at least 4, with vector instructions 16 */
    int32_t offset, low, high;
} cortado_depthwise_pixel_t;

CORTADO_AT(cortado_depthwise_pixel_t, stream, PIXEL_STREAM);
CORTADO_AT(cortado_depthwise_pixel_t, taps, PIXEL_TAPS);
CORTADO_AT(cortado_depthwise_pixel_t, taps_end, PIXEL_TAPS_END);
CORTADO_AT(cortado_depthwise_pixel_t, channels, PIXEL_CHANNELS);
CORTADO_AT(cortado_depthwise_pixel_t, offset, PIXEL_OFFSET);
CORTADO_AT(cortado_depthwise_pixel_t, low, PIXEL_OFFSET + 4);
CORTADO_AT(cortado_depthwise_pixel_t, high, PIXEL_HIGH);

/* Of several outputs of each channel: `channels` are 16, or those of as many pixels as fit sixteen bytes. */
typedef struct {
    cortado_depthwise_pixel_t pixel;
    int32_t each; /* outputs of a channel: 2 to 17 */
    int32_t back; /* in the stream, behind the outputs of `channels`: 0, or all of it */
    int32_t skip; /* from behind the last of their outputs, less `channels`, to the next ones */
    int32_t bytes; /* of a piece: of a pixel, or of several whose taps lie together like their outputs */
    int32_t out_step, step; /* from the outputs and the taps of a piece to those of the next one */
} cortado_depthwise_several_t;

CORTADO_AT(cortado_depthwise_several_t, each, SEVERAL_EACH);
CORTADO_AT(cortado_depthwise_several_t, back, SEVERAL_BACK);
CORTADO_AT(cortado_depthwise_several_t, skip, SEVERAL_BACK + 4);
CORTADO_AT(cortado_depthwise_several_t, bytes, SEVERAL_BYTES);
CORTADO_AT(cortado_depthwise_several_t, out_step, SEVERAL_OUT_STEP);
CORTADO_AT(cortado_depthwise_several_t, step, SEVERAL_OUT_STEP + 4);

void CORTADO_ISA(cortado_depthwise_pixel_s8)(const cortado_depthwise_pixel_t *P, int8_t *out);
/* The taps have `moved` on since they were pointed, all by as many bytes. */
void cortado_depthwise_pixel_s8__mve(const cortado_depthwise_pixel_t *P, int8_t *out, int32_t moved);
/* A run of pixels, `bytes` in all, whose taps lie together like their outputs. P->channels are those of as many pixels
 * as fit sixteen bytes, and the stream is theirs; a run shorter than that may be one pixel of any layer. */
void cortado_depthwise_few_pixels_s8__mve(const cortado_depthwise_pixel_t *P, int8_t *out, int32_t bytes);
/* Pieces with several outputs of each channel. */
void cortado_depthwise_several_pixels_s8__mve(const cortado_depthwise_several_t *P, int8_t *out, int32_t pieces);

/* Points the taps of one row at the window that starts at column `left`. Edges cost nothing: a tap outside the image
 * points to the zero-point pixel. */
static inline const int8_t **cortado_depthwise_point_row(const cortado_depthwise_packed_t *L, const int8_t *row,
                                                         int32_t left, const int8_t **to)
{
    const int32_t step = L->dilation_w * L->in_c;
    const uint32_t columns = row != NULL ? (uint32_t)L->in_w : 0; /* of the row, where it has any */
    int32_t at = left * L->in_c;
    for (int32_t kx = L->kernel_w; kx > 0; kx--) {
        *to++ = (uint32_t)left < columns ? row + at : L->zero;
        left += L->dilation_w;
        at += step;
    }
    return to;
}

/* Points all taps at the window that starts at column `left`. If the one before, a stride to the left, was inside the
 * row (`was_inside`) and this one is too, the taps only move on. Returns whether it is. */
static inline int cortado_depthwise_point(const cortado_depthwise_packed_t *L, const int8_t *const rows[], int32_t left,
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
            CORTADO_STAY_A_LOOP;
        }
    }
    return inside;
}

#endif
#endif /* DEPTHWISE_PIXEL_S8_H */
