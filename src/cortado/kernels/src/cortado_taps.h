/* SPDX-License-Identifier: Apache-2.0
 *
 * The heart of depthwise convolution on cores without vector instructions: all channels of one pixel, from pointers to
 * the pixels under its taps. Four channels at a time; the last four may overlap those before. Internal.
 *
 * The stream has, for each four channels: their biases, the weights, their factors. Weights are four bytes per tap, on
 * DSP cores eight bytes per two taps.
 */
#ifndef CORTADO_TAPS_H
#define CORTADO_TAPS_H

#include "cortado.h"
#include "cortado_math.h"

#if CORTADO_SMALL_CORE || !defined(__ARM_FEATURE_DSP)
#define CORTADO_TAPS_NAME(kernel) kernel##__scalar
#define CORTADO_TAPS_TOGETHER 1
#else
#define CORTADO_TAPS_NAME(kernel) kernel##__dsp
#define CORTADO_TAPS_TOGETHER 2
#endif

/* taps.S knows these offsets. */
typedef struct {
    const int8_t *stream;
    const int8_t *const *taps;
    const int8_t *const *taps_end;
    int32_t channels; /* at least 4 */
    int32_t offset, low, high;
} cortado_taps_t;

void cortado_taps_pixel(const cortado_taps_t *T, int8_t *out);

#endif /* CORTADO_TAPS_H */
