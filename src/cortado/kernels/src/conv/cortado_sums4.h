/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of four channels at once without DSP instructions: bytes plus 128 are unsigned, and two sums of them share a
 * word. Internal.
 */
#ifndef CORTADO_SUMS4_H
#define CORTADO_SUMS4_H

#include "cortado_math.h"

/* The most bytes that a sum holds: 255 * 257 is below 2^16. */
#define CORTADO_SUMS4_MOST 257

/* Sums of channels 0 and 2, and of 1 and 3, each byte 128 too large. */
typedef struct {
    uint32_t even, odd;
} cortado_sums4_t;

static inline cortado_sums4_t cortado_sums4_add(cortado_sums4_t s, uint32_t four)
{
    four ^= 0x80808080u;
    s.even += four & 0x00FF00FFu;
    s.odd += (four >> 8) & 0x00FF00FFu;
    return s;
}

/* Whether four bytes at p, p + step, ... are best loaded together: small cores need ten instructions for a word that is
 * not aligned. */
static inline int cortado_sums4_pays(const int8_t *p, int32_t step)
{
    return !CORTADO_SMALL_CORE || (((uintptr_t)p | (uintptr_t)step) & 3) == 0;
}

/* Adds n pixels, `step` bytes apart; it has to pay. */
static inline cortado_sums4_t cortado_sums4_pixels(cortado_sums4_t s, const int8_t *p, int32_t step, int32_t n)
{
    for (; n > 0; n--, p += step) {
#if CORTADO_SMALL_CORE && defined(__GNUC__)
        uint32_t four;
        __builtin_memcpy(&four, __builtin_assume_aligned(p, 4), sizeof four);
        s = cortado_sums4_add(s, four);
#else
        s = cortado_sums4_add(s, (uint32_t)cortado_load4(p));
#endif
    }
    return s;
}

/* The sum of channel 0 to 3, of `count` bytes. */
static inline int32_t cortado_sums4_of(cortado_sums4_t s, int32_t channel, int32_t count)
{
    const uint32_t word = channel & 1 ? s.odd : s.even;
    return (int32_t)(channel & 2 ? word >> 16 : word & 0xFFFF) - 128 * count;
}

#endif /* CORTADO_SUMS4_H */
