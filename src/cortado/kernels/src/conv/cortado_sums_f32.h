/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions and linear layers in float32 that make several outputs at once: each a sum in ascending order, its
 * products and sums rounded by themselves. Internal.
 *
 * The stream of weights is made of blocks of 16 output channels; up to 8 behind the last whole one are a block of 8. A
 * block begins with its biases; channels that make it whole are zeros:
 *
 *   | biases 16 x 4 | weights of the first product 16 x 4 | of the second | ...
 */
#ifndef CORTADO_SUMS_F32_H
#define CORTADO_SUMS_F32_H

/* Members of cortado_tile_f32_t: the assembly reads many of them at once. */
#define TILE_F32_BLOCK 0
#define TILE_F32_OUT 20

#if !defined(__ASSEMBLER__)
#include "cortado_float.h"

typedef struct {
    const float *block;   /* the biases of these channels */
    const float *x0, *x1; /* one pixel or two, `products` numbers of each */
    int32_t products;     /* at least 1 */
    int32_t step;         /* bytes from biases to weights, and from the weights of one product to those of the next */
    float *out0, *out1;
    int32_t channels;     /* that outputs are stored of */
    float low, high;
} cortado_tile_f32_t;

CORTADO_AT(cortado_tile_f32_t, block, TILE_F32_BLOCK);
CORTADO_AT(cortado_tile_f32_t, x0, TILE_F32_BLOCK + 4);
CORTADO_AT(cortado_tile_f32_t, x1, TILE_F32_BLOCK + 8);
CORTADO_AT(cortado_tile_f32_t, products, TILE_F32_BLOCK + 12);
CORTADO_AT(cortado_tile_f32_t, step, TILE_F32_BLOCK + 16);
CORTADO_AT(cortado_tile_f32_t, out0, TILE_F32_OUT);
CORTADO_AT(cortado_tile_f32_t, out1, TILE_F32_OUT + 4);
CORTADO_AT(cortado_tile_f32_t, channels, TILE_F32_OUT + 8);
CORTADO_AT(cortado_tile_f32_t, low, TILE_F32_OUT + 12);
CORTADO_AT(cortado_tile_f32_t, high, TILE_F32_OUT + 16);

/* Sums in C: 16 or 8 of one pixel, or 8 of two; nothing is added for channels that aren't there. */
static inline void cortado_plain_sums_f32(const cortado_tile_f32_t *T, float *sums, int32_t channels, int32_t pixels)
{
    const int32_t step = T->step / 4;
    for (int32_t i = 0; i < pixels; i++, sums += channels) {
        const float *const x = i == 0 ? T->x0 : T->x1;
        for (int32_t c = 0; c < channels; c++) {
            const int32_t products = c < T->channels ? T->products : 0;
            const float *w = T->block + c;
            float sum = *w;
            for (int32_t k = 0; k < products; k++) {
                w += step;
                sum = sum + cortado_f32_mul(x[k], *w);
            }
            sums[c] = sum;
        }
    }
}

#endif

#endif /* CORTADO_SUMS_F32_H */
