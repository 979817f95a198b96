/* SPDX-License-Identifier: Apache-2.0
 *
 * 3x3 depthwise convolution with vector instructions: a run of pixels whose nine tap pointers stay in registers.
 * Internal.
 *
 * Sixteen channels at a time; the last sixteen may overlap those before. See depthwise3x3_pixels_s8__mve.S for the stream.
 */
#ifndef DEPTHWISE3X3_PIXELS_S8__MVE_H
#define DEPTHWISE3X3_PIXELS_S8__MVE_H

#include "cortado.h"
#include "cortado_math.h"

/* depthwise3x3_pixels_s8__mve.S knows these offsets. */
typedef struct {
    const int8_t *stream;
    int32_t channels; /* at least 16 */
    int32_t offset, low, high;
    int32_t skip[3];       /* from the end of a pixel to the next one, for each row of taps */
    const int8_t *taps[9];
} cortado_depthwise3x3_pixels_t;

void cortado_depthwise3x3_pixels_s8__mve(const cortado_depthwise3x3_pixels_t *N, int8_t *out, int32_t pixels);

#endif /* DEPTHWISE3X3_PIXELS_S8__MVE_H */
