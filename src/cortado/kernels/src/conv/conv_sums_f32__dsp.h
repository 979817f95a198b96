/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of convolutions and linear layers in float32, with a float unit: see cortado_sums_f32.h.
 * Internal.
 */
#ifndef CONV_SUMS_F32__DSP_H
#define CONV_SUMS_F32__DSP_H

#include "cortado_sums_f32.h"

#if !defined(__ASSEMBLER__)
#if defined(__ARM_FP) && (__ARM_FP & 4)

/* 16 channels of one pixel, 8 of one, 8 of two. */
void cortado_conv_sums16_f32__dsp(const cortado_tile_f32_t *T, float *sums);
void cortado_conv_sums8_f32__dsp(const cortado_tile_f32_t *T, float *sums);
void cortado_conv_sums8x2_f32__dsp(const cortado_tile_f32_t *T, float *sums);

#else /* a core without one */

static inline void cortado_conv_sums16_f32__dsp(const cortado_tile_f32_t *T, float *sums)
{
    cortado_plain_sums_f32(T, sums, 16, 1);
}

static inline void cortado_conv_sums8_f32__dsp(const cortado_tile_f32_t *T, float *sums)
{
    cortado_plain_sums_f32(T, sums, 8, 1);
}

static inline void cortado_conv_sums8x2_f32__dsp(const cortado_tile_f32_t *T, float *sums)
{
    cortado_plain_sums_f32(T, sums, 8, 2);
}

#endif
#endif

#endif /* CONV_SUMS_F32__DSP_H */
