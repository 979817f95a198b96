/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of numbers. Internal.
 */
#ifndef CORTADO_COPY_F32_H
#define CORTADO_COPY_F32_H

#include "cortado_float.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

static void cortado_copy_numbers(float *to, const float *from, int32_t n)
{
    for (; n > 0; n -= 4, to += 4, from += 4) {
        const mve_pred16_t inside = vctp32q((uint32_t)n);
        vstrwq_p_u32((uint32_t *)(void *)to, vldrwq_z_u32((const uint32_t *)(const void *)from, inside), inside);
    }
}

#else

static void cortado_copy_numbers(float *to, const float *from, int32_t n)
{
    for (; n >= 4; n -= 4, to += 4, from += 4) {
        const float a = from[0], b = from[1], c = from[2], d = from[3];
        to[0] = a;
        to[1] = b;
        to[2] = c;
        to[3] = d;
        CORTADO_STAY_A_LOOP;
    }
    for (; n > 0; n--) {
        *to++ = *from++;
        CORTADO_STAY_A_LOOP;
    }
}

#endif

#endif /* CORTADO_COPY_F32_H */
