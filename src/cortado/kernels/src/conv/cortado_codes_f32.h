/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions and linear layers in float32 whose weights are codes of 8 bits, and that make several outputs at once:
 * each a sum in ascending order from 0 on, times its channel's scale, plus its bias. Internal.
 *
 * The stream is made of blocks of 8 output channels; channels that make the last one whole are zeros:
 *
 *   | biases 8 x 4 | scales 8 x 4 | codes of the first product 8 x 1 | of the second | ...
 */
#ifndef CORTADO_CODES_F32_H
#define CORTADO_CODES_F32_H

#include "cortado_sums_f32.h"

#define TILE_F32_HEADS 64 /* bytes of biases and scales */

#if !defined(__ASSEMBLER__)

/* Outputs before their bounds in C: 8 of each pixel; nothing is added for channels that aren't there. */
static inline void cortado_plain_codes_f32(const cortado_tile_f32_t *T, float *sums, int32_t pixels)
{
    const float *const bias = T->block, *const scale = bias + 8;
    for (int32_t i = 0; i < pixels; i++, sums += 8) {
        const float *const x = i == 0 ? T->x0 : T->x1;
        for (int32_t c = 0; c < 8; c++) {
            const int32_t products = c < T->channels ? T->products : 0;
            const int8_t *code = (const int8_t *)(const void *)T->block + TILE_F32_HEADS + c;
            float sum = 0.0f;
            for (int32_t k = 0; k < products; k++, code += 8) {
                sum = sum + cortado_f32_mul(x[k], (float)*code);
            }
            sums[c] = cortado_f32_mul(sum, scale[c]) + bias[c];
        }
    }
}

#endif

#endif /* CORTADO_CODES_F32_H */
