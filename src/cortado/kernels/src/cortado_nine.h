/* SPDX-License-Identifier: Apache-2.0
 *
 * 3x3 depthwise convolution with vector instructions: a run of pixels whose nine tap pointers stay in registers.
 * Internal.
 *
 * Sixteen channels at a time; the last sixteen may overlap those before. See nine_mve.S for the stream.
 */
#ifndef CORTADO_NINE_H
#define CORTADO_NINE_H

#include "cortado.h"
#include "cortado_math.h"

/* nine_mve.S knows these offsets. */
typedef struct {
    const int8_t *stream;
    int32_t channels; /* at least 16 */
    int32_t offset, low, high;
    int32_t skip[3];       /* from the end of a pixel to the next one, for each row of taps */
    const int8_t *taps[9];
} cortado_nine_t;

void cortado_nine_pixels(const cortado_nine_t *N, int8_t *out, int32_t pixels);

#endif /* CORTADO_NINE_H */
