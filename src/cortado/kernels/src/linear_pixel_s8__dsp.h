/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of linear layers with DSP instructions: all output channels of one pixel. Internal. The stream is
 * described in linear_pixel_s8__dsp.S; T->depth may be any number, and T->stride isn't read.
 */
#ifndef LINEAR_PIXEL_S8__DSP_H
#define LINEAR_PIXEL_S8__DSP_H

#include "conv_tile_s8__scalar_dsp.h"

#if !defined(__ASSEMBLER__)
void cortado_linear_pixel_s8__dsp(const cortado_conv_tile_t *T, const int8_t *x, int8_t *out);
#endif

#endif /* LINEAR_PIXEL_S8__DSP_H */
