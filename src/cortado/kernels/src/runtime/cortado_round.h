/* SPDX-License-Identifier: Apache-2.0
 *
 * Integers times a factor as 16-bit codes, rounded once. Internal.
 */
#ifndef CORTADO_ROUND_H
#define CORTADO_ROUND_H

#include "cortado_math.h"

/* v as a code: what is outside of 16 bits is their end. */
static inline int16_t cortado_code_s16(int64_t v) { return (int16_t)(v > 32767 ? 32767 : v < -32768 ? -32768 : v); }

/* v * multiplier * 2^(shift - 31) to nearest, ties up; -31 <= shift <= 30, multiplier >= 0. */
static inline int64_t cortado_rounded(int32_t v, int32_t multiplier, int32_t shift)
{
    return ((int64_t)v * multiplier + ((int64_t)1 << (30 - shift))) >> (31 - shift);
}

#endif /* CORTADO_ROUND_H */
