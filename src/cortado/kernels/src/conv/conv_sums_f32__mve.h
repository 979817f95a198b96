/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of convolutions and linear layers in float32, with vector instructions: see cortado_sums_f32.h.
 * Internal.
 */
#ifndef CONV_SUMS_F32__MVE_H
#define CONV_SUMS_F32__MVE_H

#include "cortado_sums_f32.h"

#if !defined(__ASSEMBLER__)
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)

/* Outputs of 16 channels of one pixel, of 8 of one, of 8 of two; where the result isn't 0, they are not made. */
int32_t cortado_conv_outputs16_f32__mve(const cortado_tile_f32_t *T);
int32_t cortado_conv_outputs8_f32__mve(const cortado_tile_f32_t *T);
int32_t cortado_conv_outputs8x2_f32__mve(const cortado_tile_f32_t *T);

#else /* vectors of integers alone */

static inline int32_t cortado_conv_outputs16_f32__mve(const cortado_tile_f32_t *T) { return T->step; }
static inline int32_t cortado_conv_outputs8_f32__mve(const cortado_tile_f32_t *T) { return T->step; }
static inline int32_t cortado_conv_outputs8x2_f32__mve(const cortado_tile_f32_t *T) { return T->step; }

#endif
#endif

#endif /* CONV_SUMS_F32__MVE_H */
