/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution in float32 with weights that are codes of 8 bits, with vector instructions: one output row, or a 1x1
 * window over a span of pixels.
 *
 * Tile: 2 pixels x 8 channels, an odd last one alone. Scratch: 2 windows; none of a 1x1 window.
 */
#include "conv_codes_f32__mve.h"

#if defined(__ARM_FEATURE_MVE)

#include "cortado_finish_f32.h"

/* Without vectors: denormal numbers are none to them. */
static CORTADO_ONCE void plain(const cortado_tile_f32_t *T, int32_t pixels)
{
    float sums[16];
    cortado_plain_codes_f32(T, sums, pixels);
    cortado_finish_f32(T, sums, T->out0);
    if (pixels > 1) {
        cortado_finish_f32(T, sums + 8, T->out1);
    }
}

static void cortado_tile8(const cortado_tile_f32_t *T)
{
    if (cortado_conv_code_outputs8_f32__mve(T) != 0) {
        plain(T, 1);
    }
}

static void cortado_tile8x2(const cortado_tile_f32_t *T)
{
    if (cortado_conv_code_outputs8x2_f32__mve(T) != 0) {
        plain(T, 2);
    }
}

#include "cortado_code_pixels_f32.h"
#include "cortado_spans_f32.h"

void cortado_conv2d_codes_f32__mve(const cortado_layer_f32_packed_t *L, const int8_t *const rows[], float *out,
                                   void *scratch)
{
    cortado_row_f32(L, rows, out, scratch);
}

void cortado_conv1x1_codes_f32__mve(const cortado_layer_f32_packed_t *L, const float *in, float *out, int32_t pixels)
{
    cortado_span_f32(L, in, out, pixels);
}
#else
typedef int cortado_conv2d_codes_f32_needs_mve; /* an empty translation unit is not C */
#endif
