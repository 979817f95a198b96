/* SPDX-License-Identifier: Apache-2.0
 *
 * Powers of two of differences of 16-bit codes, for softmax and its logarithm. Internal.
 */
#ifndef CORTADO_POWERS_H
#define CORTADO_POWERS_H

#include "cortado.h"
#include "cortado_math.h"

/* y, the distance to the largest in steps of 2^-16. */
static inline int32_t cortado_distance(const cortado_softmax_s16_t *L, int32_t below)
{
    return cortado_requant(below, L->multiplier, L->shift);
}

/* 2^-y in steps of 2^-bits. */
static inline uint32_t cortado_power(const cortado_softmax_s16_t *L, int32_t y)
{
    const int32_t *at = L->powers + ((y & 0xFFFF) >> 9);
    const int32_t right = 30 - L->bits + (y >> 16);
    const uint32_t value = (uint32_t)at[0] - (((uint32_t)(at[0] - at[1]) * (uint32_t)(y & 511)) >> 9);
    return right < 32 ? value >> right : 0;
}

#endif /* CORTADO_POWERS_H */
