/* SPDX-License-Identifier: Apache-2.0
 *
 * The logarithm of a sum of exponentials. Internal.
 */
#ifndef CORTADO_LOGARITHM_H
#define CORTADO_LOGARITHM_H

#include "cortado_softmax.h"

#define CORTADO_LOG_BITS 20
#define CORTADO_UNIT_BITS (31 - CORTADO_SOFTMAX_SUM_BITS)

/* Base-2 logarithm with 20 fractional bits of a sum that is at least 1: each squaring of the mantissa shows a bit. */
static inline int32_t cortado_log2_of_sum(uint64_t sum)
{
    int32_t result = 31 - CORTADO_UNIT_BITS;
    for (; sum >> 32 != 0; sum >>= 1) {
        result++;
    }
    const int32_t headroom = cortado_leading_zeros((uint32_t)sum);
    uint32_t mantissa = (uint32_t)sum << headroom; /* [1, 2) with 31 fractional bits */
    result -= headroom;
    for (int i = 0; i < CORTADO_LOG_BITS; i++) {
        const uint64_t square = ((uint64_t)mantissa * mantissa) >> 31;
        const uint32_t carry = (uint32_t)(square >> 32);
        mantissa = (uint32_t)(square >> carry);
        result = result * 2 + (int32_t)carry;
    }
    return result;
}

#endif /* CORTADO_LOGARITHM_H */
