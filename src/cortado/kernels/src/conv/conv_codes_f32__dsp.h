/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of convolutions and linear layers in float32 whose weights are codes, with a float unit: see
 * cortado_codes_f32.h. Internal.
 */
#ifndef CONV_CODES_F32__DSP_H
#define CONV_CODES_F32__DSP_H

#include "cortado_codes_f32.h"

#if !defined(__ASSEMBLER__)
#if defined(__ARM_FP) && (__ARM_FP & 4)

/* 8 channels of one pixel, of two. */
void cortado_conv_codes8_f32__dsp(const cortado_tile_f32_t *T, float *sums);
void cortado_conv_codes8x2_f32__dsp(const cortado_tile_f32_t *T, float *sums);

#else /* a core without one */

static inline void cortado_conv_codes8_f32__dsp(const cortado_tile_f32_t *T, float *sums)
{
    cortado_plain_codes_f32(T, sums, 1);
}

static inline void cortado_conv_codes8x2_f32__dsp(const cortado_tile_f32_t *T, float *sums)
{
    cortado_plain_codes_f32(T, sums, 2);
}

#endif
#endif

#endif /* CONV_CODES_F32__DSP_H */
