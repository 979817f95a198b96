/* SPDX-License-Identifier: Apache-2.0
 *
 * 16-bit codes as 8-bit ones of the same steps, limited to what these hold.
 *
 * Tile: 8 elements with vector instructions, 4 with DSP instructions, else 1. Scratch: none.
 */
#include "cortado.h"
#include "cortado_dot.h"
#include "cortado_math.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

void cortado_limit_codes(const cortado_limit_codes_t *L, const int16_t *in, int8_t *out, int32_t n)
{
    const int16x8_t low = vdupq_n_s16(-128), high = vdupq_n_s16(127);
    for (; n > 0; n -= 8, in += 8, out += 8) {
        const mve_pred16_t some = vctp16q((uint32_t)n);
        const int16x8_t x = vqaddq_n_s16(vldrhq_z_s16(in, some), (int16_t)L->out_zero);
        vstrbq_p_s16(out, vminq_s16(vmaxq_s16(x, low), high), some);
    }
}

#else

#if defined(__ARM_FEATURE_DSP)

/* Two codes plus two zero points, within bytes; each in the lower half of a halfword. */
static inline int32_t two_bytes(const int16_t *x, int32_t zeros)
{
    int32_t v = cortado_load4((const int8_t *)(const void *)x);
    __asm__("qadd16 %0, %0, %1\n\t"
            "ssat16 %0, #8, %0"
            : "+r"(v)
            : "r"(zeros));
    return v;
}

#endif

void cortado_limit_codes(const cortado_limit_codes_t *L, const int16_t *in, int8_t *out, int32_t n)
{
    const int32_t zero = L->out_zero;
#if defined(__ARM_FEATURE_DSP)
    const int32_t zeros = cortado_low_halves(zero, zero);
    for (; n >= 4; n -= 4, in += 4, out += 4) {
        const int32_t first = two_bytes(in, zeros), last = two_bytes(in + 2, zeros);
        const uint32_t even = (uint32_t)cortado_low_halves(first, last) & 0x00FF00FFu;
        const uint32_t odd = (uint32_t)cortado_high_halves(first, last) & 0x00FF00FFu;
        cortado_store4(out, (int32_t)(even | odd << 8));
    }
#endif
    for (int32_t i = 0; i < n; i++) {
        out[i] = (int8_t)cortado_clamp(in[i] + zero, -128, 127);
    }
}

#endif
