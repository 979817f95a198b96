/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution in float32 with the float unit of cores that have DSP instructions: one output row, or a 1x1 window over
 * a span of pixels.
 *
 * Tile: 2 pixels x 8 channels, an odd last one alone x 16. Scratch: 2 windows; none of a 1x1 window.
 */
#include "conv_sums_f32__dsp.h"

#if defined(__ARM_FEATURE_DSP)

#include "cortado_finish_f32.h"

static void cortado_tile16(const cortado_tile_f32_t *T)
{
    float sums[16];
    cortado_conv_sums16_f32__dsp(T, sums);
    cortado_finish_f32(T, sums, T->out0);
}

static void cortado_tile8(const cortado_tile_f32_t *T)
{
    float sums[8];
    cortado_conv_sums8_f32__dsp(T, sums);
    cortado_finish_f32(T, sums, T->out0);
}

static void cortado_tile8x2(const cortado_tile_f32_t *T)
{
    float sums[16];
    cortado_conv_sums8x2_f32__dsp(T, sums);
    cortado_finish_f32(T, sums, T->out0);
    cortado_finish_f32(T, sums + 8, T->out1);
}

#include "cortado_pixels_f32.h"
#include "cortado_spans_f32.h"

void cortado_conv2d_f32__dsp(const cortado_layer_f32_packed_t *L, const int8_t *const rows[], float *out, void *scratch)
{
    cortado_row_f32(L, rows, out, scratch);
}

void cortado_conv1x1_f32__dsp(const cortado_layer_f32_packed_t *L, const float *in, float *out, int32_t pixels)
{
    cortado_span_f32(L, in, out, pixels);
}

void cortado_linear_f32__dsp(const cortado_layer_f32_packed_t *L, const float *in, float *out, int32_t pixels)
{
    (void)pixels; /* 1 */
    cortado_pixel_f32(L, in, L->in_c, out);
}
#else
typedef int cortado_conv2d_f32_needs_dsp; /* an empty translation unit is not C */
#endif
