/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of 1x1 convolution of at most sixteen input channels with vector instructions (MVE): four output
 * channels of all pixels, whose weights stay in registers. Internal. See conv_shallow_s8__mve.S.
 */
#ifndef CONV_SHALLOW_S8__MVE_H
#define CONV_SHALLOW_S8__MVE_H

/* Members of cortado_conv_shallow_t, for the assembly. */
#define SHALLOW_STREAM 0 /* depth is read with it */
#define SHALLOW_OFFSET 8
#define SHALLOW_LOW 12 /* high is read with it */
#define SHALLOW_CHANNELS 20
#define SHALLOW_X 24 /* out is read with it */
#define SHALLOW_PAIRS 32 /* odd is read with it */
#define SHALLOW_STEP 40 /* out_step is read with it */

#if !defined(__ASSEMBLER__)
#include "cortado.h"
#include "cortado_math.h"

typedef struct {
    const int8_t *stream;
    int32_t depth; /* products of an output: 1 to 16 */
    int32_t offset, low, high;
    int32_t channels; /* at least 4 */
    const int8_t *x;
    int8_t *out;
    int32_t pairs, odd;     /* two pixels each, at least one; and whether the last pixel is one of no pair */
    int32_t step, out_step; /* from a pixel to the next one */
} cortado_conv_shallow_t;

CORTADO_AT(cortado_conv_shallow_t, stream, SHALLOW_STREAM);
CORTADO_AT(cortado_conv_shallow_t, depth, SHALLOW_STREAM + 4);
CORTADO_AT(cortado_conv_shallow_t, offset, SHALLOW_OFFSET);
CORTADO_AT(cortado_conv_shallow_t, low, SHALLOW_LOW);
CORTADO_AT(cortado_conv_shallow_t, high, SHALLOW_LOW + 4);
CORTADO_AT(cortado_conv_shallow_t, channels, SHALLOW_CHANNELS);
CORTADO_AT(cortado_conv_shallow_t, x, SHALLOW_X);
CORTADO_AT(cortado_conv_shallow_t, out, SHALLOW_X + 4);
CORTADO_AT(cortado_conv_shallow_t, pairs, SHALLOW_PAIRS);
CORTADO_AT(cortado_conv_shallow_t, odd, SHALLOW_PAIRS + 4);
CORTADO_AT(cortado_conv_shallow_t, step, SHALLOW_STEP);
CORTADO_AT(cortado_conv_shallow_t, out_step, SHALLOW_STEP + 4);

void cortado_conv_shallow_s8__mve(const cortado_conv_shallow_t *T);

#endif
#endif /* CONV_SHALLOW_S8__MVE_H */
