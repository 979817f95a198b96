/* SPDX-License-Identifier: Apache-2.0
 *
 * A few rows of one path of a gate, for recurrent layers: their products by the inner loop of linear layers, whose
 * stream it is (linear_group_s8__scalar_dsp.S), then from a multiple of 4 bytes on | bias 4 | multiplier 4 | shifts 4 |
 * of each row, the words of cortado_asm.h.
 *
 * Tile: 4 rows, on small cores 3. Scratch: none.
 */
#include "linear_group_s8__scalar_dsp.h"

#if !(defined(__thumb__) && CORTADO_SMALL_CORE)

/* The rounding of every operator, for sums that one doubling more leaves in 32 bits. */
static inline int32_t scaled(int32_t v, int32_t multiplier, int32_t shifts)
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

static inline int32_t row(const int8_t *stream, int32_t sum)
{
    return scaled(sum + cortado_load4(stream), cortado_load4(stream + 4), cortado_load4(stream + 8));
}

static inline const int8_t *gate_rows(const int8_t *stream, int32_t *gates)
{
    gates[0] = row(stream, gates[0]);
    gates[1] = row(stream + 12, gates[1]);
    gates[2] = row(stream + 24, gates[2]);
#if !CORTADO_SMALL_CORE
    gates[3] = row(stream + 36, gates[3]);
#endif
    return stream + 12 * CORTADO_LINEAR_CHANNELS;
}

#define GATE_ROWS gate_rows
#else
/* The same in assembly. */
const int8_t *cortado_gate_rows_s8__scalar(const int8_t *stream, int32_t *gates);
#define GATE_ROWS cortado_gate_rows_s8__scalar
#endif

const int8_t *CORTADO_ISA(cortado_gates_s8)(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates)
{
    gates[0] = gates[1] = gates[2] = 0;
#if !CORTADO_SMALL_CORE
    gates[3] = 0;
#endif
    stream = cortado_group_products(x, stream, n, gates);
    return GATE_ROWS(CORTADO_SMALL_CORE ? stream + (n & 3) : stream, gates);
}
