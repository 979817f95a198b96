/* SPDX-License-Identifier: Apache-2.0
 *
 * Four bytes at a time with the DSP instructions. Internal; needs __ARM_FEATURE_DSP.
 */
#ifndef CORTADO_DSP_H
#define CORTADO_DSP_H

#include "cortado_math.h"

/* The sums of four channels, as halfwords: those of channels 0 and 2, those of 1 and 3. 256 bytes fit. */
typedef struct {
    int32_t even, odd;
} cortado_sums4_t;

/* Adds n pixels, `step` bytes apart. */
static inline cortado_sums4_t cortado_add_pixels4(cortado_sums4_t s, const int8_t *p, int32_t step, int32_t n)
{
    for (; n > 0; n--) {
        const int32_t four = cortado_load4(p);
        __asm__("sxtab16 %0, %0, %1" : "+r"(s.even) : "r"(four));
        __asm__("sxtab16 %0, %0, %1, ror #8" : "+r"(s.odd) : "r"(four));
        p += step;
    }
    return s;
}

/* The sum of channel 0 to 3. */
static inline int32_t cortado_sum_of4(cortado_sums4_t s, int32_t channel)
{
    const int32_t word = channel & 1 ? s.odd : s.even;
    return channel & 2 ? word >> 16 : (int16_t)word;
}

/* The larger of each two bytes: the subtraction sets the flags that select. */
static inline int32_t cortado_max4(int32_t a, int32_t b)
{
    int32_t v;
    __asm__("ssub8 %0, %1, %2\n\tsel %0, %1, %2" : "=&r"(v) : "r"(a), "r"(b) : "cc");
    return v;
}

static inline int32_t cortado_min4(int32_t a, int32_t b)
{
    int32_t v;
    __asm__("ssub8 %0, %1, %2\n\tsel %0, %2, %1" : "=&r"(v) : "r"(a), "r"(b) : "cc");
    return v;
}

/* The next four channels, or the last four, which may overlap. */
static inline int32_t cortado_next4(int32_t channel, int32_t channels)
{
    channel += 4;
    return channel < channels ? cortado_min(channel, channels - 4) : channels;
}

#endif /* CORTADO_DSP_H */
