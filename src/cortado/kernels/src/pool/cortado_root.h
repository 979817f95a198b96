/* SPDX-License-Identifier: Apache-2.0
 *
 * Roots of sums of squares. Internal.
 */
#ifndef CORTADO_ROOT_H
#define CORTADO_ROOT_H

#include "cortado_math.h"

/* v << *left, of 61 or 62 bits, with *left even; v is below 2^62, and 0 stays 0. */
static inline uint64_t cortado_normalized(uint64_t v, int32_t *left)
{
    *left = 0;
    for (int32_t step = 32; step > 1; step >>= 1) {
        if (v < (uint64_t)1 << (62 - step)) {
            v <<= step;
            *left += step;
        }
    }
    return v;
}

/* The integer square root of a normalized number or 0: its upper 16 bits bit by bit, the lower 15 by a division, which
 * may give one too many. */
static inline uint32_t cortado_root(uint64_t v)
{
    uint32_t rest = (uint32_t)(v >> 30), root = 0, over;
    if (rest == 0) {
        return 0;
    }
    for (uint32_t bit = (uint32_t)1 << 30; bit != 0; bit >>= 2) {
        const uint32_t more = root + bit;
        root >>= 1;
        if (rest >= more) {
            rest -= more;
            root += bit;
        }
    }
    const uint32_t low = cortado_quotient(rest << 15 | ((uint32_t)v >> 15 & 0x7FFF), 2 * root, 17, &over);
    return (root << 15) + low - ((over << 15 | ((uint32_t)v & 0x7FFF)) < low * low);
}

/* clamp(zero + mantissa * multiplier / 2^right), ties up; mantissa and multiplier are below 2^31. */
static inline int8_t cortado_measure(uint32_t mantissa, int32_t multiplier, int32_t right, int32_t zero)
{
    uint64_t v = (uint64_t)mantissa * (uint32_t)multiplier;
    if (right > 62) {
        v = 0;
    } else if (right > 0) {
        v = (v + ((uint64_t)1 << (right - 1))) >> right;
    }
    return (int8_t)cortado_min((v > 255 ? 255 : (int32_t)v) + zero, 127);
}

#endif /* CORTADO_ROOT_H */
