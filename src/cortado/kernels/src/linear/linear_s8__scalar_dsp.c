/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear layers: a few channels of one pixel at a time, without scratch memory: see linear_group_s8__scalar_dsp.h.
 *
 * Tile: 1 pixel x 4 channels, on small cores 3. Scratch: none.
 */
#include "linear_group_s8__scalar_dsp.h"

#if CORTADO_SMALL_CORE

void CORTADO_ISA(cortado_linear_s8)(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                    void *scratch)
{
    const cortado_linear_groups_t groups = {L->weights,    L->in_c,    L->out_c,
                                            L->out_offset, L->act_min, L->act_max};
    (void)scratch;
    for (; pixels > 0; pixels--, in += L->in_c, out += L->out_c) {
        CORTADO_ISA(cortado_linear_groups_s8)(&groups, in, out);
    }
}

#else

/* The rounding of every operator, for |sum| < 2^30 and a right shift of `less` + 1. */
static int32_t scaled(int32_t sum, int32_t multiplier, int32_t less)
{
#if defined(__ARM_FEATURE_DSP)
    int32_t v;
    __asm__("smmulr %0, %1, %2" : "=r"(v) : "r"(cortado_shl(sum, 1)), "r"(multiplier));
#else
    int32_t v = (int32_t)(((int64_t)cortado_shl(sum, 1) * multiplier + 0x80000000) >> 32);
#endif
    v += v >> 31; /* ties of negative values go down */
    return ((v >> less) + 1) >> 1;
}

void CORTADO_ISA(cortado_linear_s8)(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                    void *scratch)
{
    const int32_t channels = L->out_c, offset = L->out_offset, low = L->act_min, high = L->act_max;
    (void)scratch;
    for (; pixels > 0; pixels--, in += L->in_c) {
        const int8_t *stream = L->weights;
        for (int32_t oc = 0; oc < channels;) {
            int32_t sums[4]; /* not `= {0}`, which may become a call of memset */
            sums[0] = sums[1] = sums[2] = sums[3] = 0;
            stream = cortado_group_products(in, stream, L->in_c, sums);
            for (int32_t i = 0; i < CORTADO_LINEAR_CHANNELS; i++, stream += 12) {
                if (oc < channels) {
                    const int32_t bias = cortado_load4(stream), multiplier = cortado_load4(stream + 4);
                    const int32_t v = scaled(sums[i] + bias, multiplier, cortado_load4(stream + 8));
                    *out++ = (int8_t)cortado_clamp(v + offset, low, high);
                    oc++;
                }
            }
        }
    }
}
#endif
