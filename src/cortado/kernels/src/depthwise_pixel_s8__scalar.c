/* SPDX-License-Identifier: Apache-2.0
 *
 * CORTADO_ISA(cortado_depthwise_pixel_s8) in C, for machines that depthwise_pixel_s8__scalar_dsp.S has no code for.
 */
#include "depthwise_pixel_s8.h"

#if !defined(__thumb__)

static int32_t word(const int8_t *stream)
{
    int32_t value;
    memcpy(&value, stream, sizeof value);
    return value;
}

static int8_t finish(const cortado_depthwise_pixel_t *T, int32_t sum, int32_t multiplier, int32_t shifts)
{
    const int32_t left = shifts & 0xFF, right = (shifts >> 8) & 0xFF;
#if CORTADO_SMALL_CORE
    multiplier = (int32_t)(((uint32_t)multiplier & 0xFFFF0000u) + (uint32_t)(int16_t)multiplier);
    const int32_t v = cortado_requant(sum, multiplier, right > 0 ? -right : left);
#else
    const int32_t v = cortado_requant(sum, multiplier, right > 0 ? -right : left - 1);
#endif
    return (int8_t)cortado_clamp(v + T->offset, T->low, T->high);
}

void CORTADO_ISA(cortado_depthwise_pixel_s8)(const cortado_depthwise_pixel_t *T, int8_t *out)
{
    const int32_t taps = (int32_t)(T->taps_end - T->taps);
    const int8_t *stream = T->stream;
    for (int32_t next = 0; next < T->channels; next += 4) {
        const int32_t first = cortado_min(next, T->channels - 4);
        const int8_t *weights = stream + 16, *factors = weights + 4 * taps;
        for (int32_t i = 0; i < 4; i++) {
            int32_t sum = word(stream + 4 * i);
            for (int32_t tap = 0; tap < taps; tap++) {
                sum += T->taps[tap][first + i] * weights[4 * tap + i];
            }
            out[first + i] = finish(T, sum, word(factors + 8 * i), word(factors + 8 * i + 4));
        }
        stream = factors + 32;
    }
}

#else
typedef int cortado_depthwise_pixel_is_assembly; /* an empty translation unit is not C */
#endif
