/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of 3x3 depthwise convolution with vector instructions: a run of pixels whose nine tap pointers stay in
 * registers. Internal.
 *
 * Sixteen channels at a time; the last sixteen may overlap those before. See depthwise3x3_pixels_s8__mve.S for the
 * stream.
 */
#ifndef DEPTHWISE3X3_PIXELS_S8__MVE_H
#define DEPTHWISE3X3_PIXELS_S8__MVE_H

/* Members of cortado_depthwise3x3_pixels_t, for the assembly. */
#define NINE_STREAM 0 /* channels is read with it */
#define NINE_OFFSET 8 /* low and high are read with it */
#define NINE_SKIP 20
#define NINE_TAPS 32

#if !defined(__ASSEMBLER__)
#include "cortado.h"
#include "cortado_math.h"

typedef struct {
    const int8_t *stream;
    int32_t channels; /* at least 16 */
    int32_t offset, low, high;
    int32_t skip[3];       /* from the end of a pixel to the next one, for each row of taps */
    const int8_t *taps[9];
} cortado_depthwise3x3_pixels_t;

CORTADO_AT(cortado_depthwise3x3_pixels_t, stream, NINE_STREAM);
CORTADO_AT(cortado_depthwise3x3_pixels_t, channels, NINE_STREAM + 4);
CORTADO_AT(cortado_depthwise3x3_pixels_t, offset, NINE_OFFSET);
CORTADO_AT(cortado_depthwise3x3_pixels_t, low, NINE_OFFSET + 4);
CORTADO_AT(cortado_depthwise3x3_pixels_t, high, NINE_OFFSET + 8);
CORTADO_AT(cortado_depthwise3x3_pixels_t, skip, NINE_SKIP);
CORTADO_AT(cortado_depthwise3x3_pixels_t, taps, NINE_TAPS);

void cortado_depthwise3x3_pixels_s8__mve(const cortado_depthwise3x3_pixels_t *N, int8_t *out, int32_t pixels);

#endif
#endif /* DEPTHWISE3X3_PIXELS_S8__MVE_H */
