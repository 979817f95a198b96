/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of convolutions and linear layers in float32 whose weights are codes, with vector instructions: see
 * cortado_codes_f32.h. Internal.
 */
#ifndef CONV_CODES_F32__MVE_H
#define CONV_CODES_F32__MVE_H

#include "cortado_codes_f32.h"

#if !defined(__ASSEMBLER__)
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)

/* Outputs of 8 channels of one pixel, of two; where the result isn't 0, they are not made. */
int32_t cortado_conv_code_outputs8_f32__mve(const cortado_tile_f32_t *T);
int32_t cortado_conv_code_outputs8x2_f32__mve(const cortado_tile_f32_t *T);

#else /* vectors of integers alone */

static inline int32_t cortado_conv_code_outputs8_f32__mve(const cortado_tile_f32_t *T) { return T->step; }
static inline int32_t cortado_conv_code_outputs8x2_f32__mve(const cortado_tile_f32_t *T) { return T->step; }

#endif
#endif

#endif /* CONV_CODES_F32__MVE_H */
