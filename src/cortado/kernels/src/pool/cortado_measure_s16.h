/* SPDX-License-Identifier: Apache-2.0
 *
 * Roots and sums of squares as 16-bit codes. Internal.
 */
#ifndef CORTADO_MEASURE_S16_H
#define CORTADO_MEASURE_S16_H

#include "cortado_root.h"

/* min(mantissa * multiplier / 2^right, 32767), ties up; mantissa and multiplier are below 2^31. */
static inline int16_t cortado_measure_s16(uint32_t mantissa, int32_t multiplier, int32_t right)
{
    uint64_t v = (uint64_t)mantissa * (uint32_t)multiplier;
    if (right > 62) {
        v = 0;
    } else if (right > 0) {
        v = (v + ((uint64_t)1 << (right - 1))) >> right;
    }
    return (int16_t)(v > 32767 ? 32767 : v);
}

#endif /* CORTADO_MEASURE_S16_H */
