/* SPDX-License-Identifier: Apache-2.0
 *
 * conv_tile_s8__scalar_dsp.S in C, for machines that it has no code for: the same sums from the same stream.
 *
 * Tile: 2 pixels, with CORTADO_SMALL_CORE 4 too; 1 channel at a time, without it 2. Scratch: none of its own.
 */
#include "conv_tile_s8__scalar_dsp.h"

#if !defined(__thumb__)

/* Channels that share their products in the stream. */
#define TOGETHER (CORTADO_SMALL_CORE ? 1 : 2)

static const int8_t *word(const int8_t *stream, int32_t *value)
{
    memcpy(value, stream, sizeof *value);
    return stream + sizeof *value;
}

/* The sum of one pixel and one of the channels that lie together in `weights`. */
static int32_t sum_of(const cortado_conv_tile_t *T, const int32_t *x, int32_t words, int32_t pixel,
                      const int8_t *weights)
{
    int32_t sum = 0;
    for (int32_t k = 0; k < T->depth; k++) {
        const int32_t both = x[k * words + pixel / 2];
        const int32_t lower = cortado_shl(both, 32 - CORTADO_LANE) >> (32 - CORTADO_LANE);
        sum += (pixel % 2 == 0 ? lower : (both - lower) >> CORTADO_LANE) * weights[k * TOGETHER];
    }
    return sum;
}

static void finish(const cortado_conv_tile_t *T, int32_t sum, int32_t multiplier, int32_t shifts, int8_t *out)
{
    const int32_t left = shifts & 0xFF, right = (shifts >> 8) & 0xFF;
#if CORTADO_SMALL_CORE
    /* The halves of the multiplier are signed: the upper one is one more where the lower one is negative. */
    multiplier = (int32_t)(((uint32_t)multiplier & 0xFFFF0000u) + (uint32_t)(int16_t)multiplier);
    const int32_t v = cortado_requant(sum, multiplier, right > 0 ? -right : left);
#else
    const int32_t v = cortado_requant(sum, multiplier, right > 0 ? -right : left - 1);
#endif
    *out = (int8_t)cortado_clamp(v + T->offset, T->low, T->high);
}

static const int8_t *tile(const cortado_conv_tile_t *T, const int32_t *x, int32_t words, int32_t pixels, int8_t *out)
{
    const int8_t *stream = T->stream;
    for (int32_t oc = 0; oc < T->channels; oc += TOGETHER) {
        int32_t bias[2] = {0, 0}, multiplier, shifts;
        const int8_t *weights;
        for (int32_t i = 0; i < TOGETHER && !CORTADO_SMALL_CORE; i++) {
            stream = word(stream, &bias[i]);
        }
        weights = stream;
        stream += T->depth * TOGETHER;
        if (CORTADO_SMALL_CORE) {
            stream = word(stream, &bias[0]);
        }
        for (int32_t i = 0; i < TOGETHER; i++) {
            stream = word(word(stream, &multiplier), &shifts);
            for (int32_t pixel = 0; pixel < pixels && oc + i < T->channels; pixel++) {
                const int32_t sum = bias[i] + sum_of(T, x, words, pixel, weights + i);
                finish(T, sum, multiplier, shifts, out + pixel * T->stride + oc + i);
            }
        }
    }
    return stream;
}

const int8_t *CORTADO_ISA(cortado_conv_tile2_s8)(const cortado_conv_tile_t *T, const void *x, int32_t pixels,
                                                 int8_t *out)
{
    return tile(T, x, 1, pixels, out);
}

#if CORTADO_TILE_PIXELS == 4
const int8_t *CORTADO_ISA(cortado_conv_tile4_s8)(const cortado_conv_tile_t *T, const void *x, int32_t pixels,
                                                 int8_t *out)
{
    return tile(T, x, 2, pixels, out);
}
#endif

#else
typedef int cortado_conv_tile_is_assembly; /* an empty translation unit is not C */
#endif
