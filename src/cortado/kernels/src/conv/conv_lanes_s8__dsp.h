/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of convolution with DSP instructions where every sum fits 24 bits: all output channels of one pixel or
 * two, laid out as conv_window_s8__dsp.h says. Internal. The stream is described in conv_lanes_s8__dsp.S.
 */
#ifndef CONV_LANES_S8__DSP_H
#define CONV_LANES_S8__DSP_H

#include "conv_tile_s8__scalar_dsp.h"

#if !defined(__ASSEMBLER__)
/* The first two of `pixels`, or the only one. Returns the stream after the last channel. */
const int8_t *cortado_conv_lanes_s8__dsp(const cortado_conv_tile_t *T, const void *x, int32_t pixels, int8_t *out);
#endif

#endif /* CONV_LANES_S8__DSP_H */
