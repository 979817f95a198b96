/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of convolution and linear layers with 4-bit weights on small cores. Internal. The streams are
 * described in conv_narrow_s8__scalar.S and linear_narrow_s8__scalar.S.
 */
#ifndef CONV_NARROW_S8__SCALAR_H
#define CONV_NARROW_S8__SCALAR_H

#include "conv_tile_s8__scalar_dsp.h"

#if !defined(__ASSEMBLER__)
#include "cortado_narrow.h"

/* One to four pixels, laid out as for cortado_conv_tile4_s8__scalar; depth is a multiple of 8. */
void cortado_conv_narrow_s8__scalar(const cortado_conv_tile_t *T, const void *x, int32_t pixels, int8_t *out);
/* With a factor for each run. */
void cortado_conv_runs_s8__scalar(const cortado_conv_tile_t *T, const void *x, int32_t pixels, int8_t *out);
/* Sums of x * (w + 8) of four channels, from x to `end`, a multiple of 16 behind it. Returns the stream behind them. */
const int8_t *cortado_linear_sums_s8__scalar(const int8_t *x, const int8_t *stream, const int8_t *end, int32_t *sums);
#endif

#endif /* CONV_NARROW_S8__SCALAR_H */
