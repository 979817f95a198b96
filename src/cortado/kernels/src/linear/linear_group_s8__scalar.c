/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_group_s8__scalar_dsp.S in C, for machines that it has no code for: the same sums from the same stream.
 *
 * Tile: 1 pixel x 4 channels, with CORTADO_SMALL_CORE 3. Scratch: none.
 */
#include "linear_group_s8__scalar_dsp.h"

#if !defined(__thumb__)

const int8_t *CORTADO_ISA(cortado_linear_group_s8)(const int8_t *x, const int8_t *weights, int32_t n, int32_t *sums)
{
    for (int32_t k = 0; k < n; k++) {
        for (int32_t i = 0; i < CORTADO_LINEAR_CHANNELS; i++) {
            sums[i] += x[k] * weights[CORTADO_SMALL_CORE ? i * n + k : k * CORTADO_LINEAR_CHANNELS + i];
        }
    }
    return weights + n * CORTADO_LINEAR_CHANNELS;
}

#if CORTADO_SMALL_CORE

static const int8_t *word(const int8_t *stream, int32_t *value)
{
    memcpy(value, stream, sizeof *value);
    return stream + sizeof *value;
}

void CORTADO_ISA(cortado_linear_groups_s8)(const cortado_linear_groups_t *G, const int8_t *x, int8_t *out)
{
    const int8_t *stream = G->stream;
    for (int32_t oc = 0; oc < G->channels;) {
        int32_t sums[CORTADO_LINEAR_CHANNELS] = {0}, bias, multiplier, shifts;
        CORTADO_ISA(cortado_linear_group_s8)(x, stream, G->depth, sums);
        stream += (G->depth * CORTADO_LINEAR_CHANNELS + 3) & ~3;
        for (int32_t i = 0; i < CORTADO_LINEAR_CHANNELS; i++, oc++) {
            stream = word(word(word(stream, &bias), &multiplier), &shifts);
            if (oc < G->channels) {
                /* The halves of the multiplier are signed: the upper one is one more where the lower is negative. */
                multiplier = (int32_t)(((uint32_t)multiplier & 0xFFFF0000u) + (uint32_t)(int16_t)multiplier);
                const int32_t v = cortado_requant(sums[i] + bias, multiplier, -((shifts >> 8) & 0xFF));
                *out++ = (int8_t)cortado_clamp(v + G->offset, G->low, G->high);
            }
        }
    }
}
#endif

#else
typedef int cortado_linear_group_is_assembly; /* an empty translation unit is not C */
#endif
