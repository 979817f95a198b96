/* SPDX-License-Identifier: Apache-2.0
 *
 * The sums of 16-bit codes over a row of pixels, by channel.
 */
#ifndef CORTADO_SUM_ROW_S16_H
#define CORTADO_SUM_ROW_S16_H

#include "cortado_wide.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

static void sum_row(int32_t *acc, const int16_t *row, int32_t pixels, int32_t channels)
{
    for (int32_t c = 0; c < channels; c += 4) {
        const mve_pred16_t some = vctp32q((uint32_t)(channels - c));
        const int16_t *p = row + c;
        int32x4_t sum = vldrwq_z_s32(acc + c, some);
        for (int32_t left = pixels; left > 0; left--, p += channels) {
            sum = vaddq_s32(sum, vldrhq_z_s32(p, some));
        }
        vstrwq_p_s32(acc + c, sum, some);
    }
}

#else

static inline void sum_channel(int32_t *acc, const int16_t *p, int32_t pixels, int32_t channels)
{
    int32_t sum = *acc;
    for (int32_t left = pixels; left > 0; left--, p += channels) {
        sum += *p;
    }
    *acc = sum;
}

static void sum_row(int32_t *acc, const int16_t *row, int32_t pixels, int32_t channels)
{
    int32_t c = 0;
#if defined(__ARM_FEATURE_DSP)
    for (; c + 4 <= channels; c += 4) {
        const int8_t *p = (const int8_t *)(const void *)(row + c);
        int32_t first = acc[c], second = acc[c + 1], third = acc[c + 2], fourth = acc[c + 3];
        for (int32_t left = pixels; left > 0; left--, p += 2 * channels) {
            const int32_t low = cortado_load4(p), high = cortado_load4(p + 4);
            first += (int16_t)low;
            second += low >> 16;
            third += (int16_t)high;
            fourth += high >> 16;
        }
        acc[c] = first;
        acc[c + 1] = second;
        acc[c + 2] = third;
        acc[c + 3] = fourth;
    }
#endif
    for (; c < channels; c++) {
        sum_channel(acc + c, row + c, pixels, channels);
    }
}

#endif

#endif
