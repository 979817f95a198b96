/* SPDX-License-Identifier: Apache-2.0
 *
 * depthwise_pixel_s8__scalar_dsp.S in C, for machines that it has no code for: the same sums from the same stream.
 *
 * Tile: 1 pixel x 4 channels. Scratch: none of its own.
 */
#include "depthwise_pixel_s8.h"

#if !defined(__thumb__)

static int32_t word(const int8_t *stream)
{
    int32_t value;
    memcpy(&value, stream, sizeof value);
    return value;
}

static int8_t finish(const cortado_depthwise_pixel_t *P, int32_t sum, int32_t multiplier, int32_t shifts)
{
    const int32_t left = shifts & 0xFF, right = (shifts >> 8) & 0xFF;
#if CORTADO_SMALL_CORE
    multiplier = (int32_t)(((uint32_t)multiplier & 0xFFFF0000u) + (uint32_t)(int16_t)multiplier);
    const int32_t v = cortado_requant(sum, multiplier, right > 0 ? -right : left);
#else
    const int32_t v = cortado_requant(sum, multiplier, right > 0 ? -right : left - 1);
#endif
    return (int8_t)cortado_clamp(v + P->offset, P->low, P->high);
}

void CORTADO_ISA(cortado_depthwise_pixel_s8)(const cortado_depthwise_pixel_t *P, int8_t *out)
{
    const int32_t taps = (int32_t)(P->taps_end - P->taps);
    const int8_t *stream = P->stream;
    for (int32_t next = 0; next < P->channels; next += 4) {
        const int32_t first = cortado_min(next, P->channels - 4);
        const int8_t *weights = stream + 16, *factors = weights + 4 * taps;
        for (int32_t i = 0; i < 4; i++) {
            int32_t sum = word(stream + 4 * i);
            for (int32_t tap = 0; tap < taps; tap++) {
                sum += P->taps[tap][first + i] * weights[4 * tap + i];
            }
            out[first + i] = finish(P, sum, word(factors + 8 * i), word(factors + 8 * i + 4));
        }
        stream = factors + 32;
    }
}

#else
typedef int cortado_depthwise_pixel_is_assembly; /* an empty translation unit is not C */
#endif
