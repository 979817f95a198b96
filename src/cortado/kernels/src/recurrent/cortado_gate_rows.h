/* SPDX-License-Identifier: Apache-2.0
 *
 * A few rows of a gate from their sums: | bias 4 | multiplier 4 | shifts 4 | of each, the words of cortado_asm.h. They
 * are 4, on small cores 3. Internal.
 */
#ifndef CORTADO_GATE_ROWS_H
#define CORTADO_GATE_ROWS_H

#include "cortado_math.h"

/* The rounding of every operator, for sums that one doubling more leaves in 32 bits. */
static inline int32_t cortado_gate_scaled(int32_t v, int32_t multiplier, int32_t shifts)
{
#if defined(__thumb__)
    int32_t other;
    __asm__("lsl %0, %0, %3\n"
#if defined(__ARM_FEATURE_DSP)
            "smmulr %0, %0, %2\n"
#else
            "smull %1, %0, %0, %2\n"
            "lsls %1, %1, #1\n"
            "adc %0, %0, #0\n"
#endif
            "and %1, %0, %3\n"
            "adds %0, %0, %1, asr #31\n"
            "ubfx %1, %3, #8, #8\n"
            "asrs %0, %0, %1\n"
            "adc %0, %0, #0"
            : "+r"(v), "=&r"(other)
            : "r"(multiplier), "r"(shifts)
            : "cc");
    return v;
#else
    const int32_t right = (shifts >> 8) & 0xFF;
#if CORTADO_SMALL_CORE
    multiplier = (int32_t)(((uint32_t)multiplier & 0xFFFF0000u) + (uint32_t)(int16_t)multiplier);
    return cortado_requant(v, multiplier, right > 0 ? -right : shifts & 0xFF);
#else
    return cortado_requant(v, multiplier, right > 0 ? -right : (shifts & 0xFF) - 1);
#endif
#endif
}

static inline int32_t cortado_gate_row(const int8_t *stream, int32_t sum)
{
    return cortado_gate_scaled(sum + cortado_load4(stream), cortado_load4(stream + 4), cortado_load4(stream + 8));
}

static inline const int8_t *cortado_gate_rows(const int8_t *stream, int32_t *gates)
{
    gates[0] = cortado_gate_row(stream, gates[0]);
    gates[1] = cortado_gate_row(stream + 12, gates[1]);
    gates[2] = cortado_gate_row(stream + 24, gates[2]);
#if !CORTADO_SMALL_CORE
    gates[3] = cortado_gate_row(stream + 36, gates[3]);
#endif
    return stream + (CORTADO_SMALL_CORE ? 36 : 48);
}

#endif /* CORTADO_GATE_ROWS_H */
