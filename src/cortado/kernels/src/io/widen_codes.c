/* SPDX-License-Identifier: Apache-2.0
 *
 * 8-bit codes as 16-bit ones, of steps that are a power of two finer: nothing is rounded.
 *
 * Tile: 8 elements with vector instructions, 4 with DSP instructions, else 1. Scratch: none.
 */
#include "cortado.h"
#include "cortado_dot.h"
#include "cortado_math.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

void cortado_widen_codes(const cortado_widen_codes_t *L, const int8_t *in, int16_t *out, int32_t n)
{
    for (; n > 0; n -= 8, in += 8, out += 8) {
        const mve_pred16_t some = vctp16q((uint32_t)n);
        const int16x8_t x = vsubq_n_s16(vldrbq_z_s16(in, some), (int16_t)L->in_zero);
        vstrhq_p_s16(out, vshlq_r_s16(x, L->left), some);
    }
}

#else

void cortado_widen_codes(const cortado_widen_codes_t *L, const int8_t *in, int16_t *out, int32_t n)
{
    const int32_t zero = L->in_zero, left = L->left;
#if defined(__ARM_FEATURE_DSP)
    const int32_t zeros = cortado_low_halves(zero, zero);
    const int32_t kept = (int32_t)((0xFFFFu >> left) * 0x10001u); /* bits of each half that stay when it is shifted */
    for (; n >= 4; n -= 4, in += 4, out += 4) {
        const int32_t four = cortado_load4(in);
        int32_t even, odd;
        __asm__("ssub16 %0, %1, %2" : "=r"(even) : "r"(cortado_even(four)), "r"(zeros));
        __asm__("ssub16 %0, %1, %2" : "=r"(odd) : "r"(cortado_odd(four)), "r"(zeros));
        int8_t *const to = (int8_t *)(void *)out;
        cortado_store4(to, cortado_shl(cortado_low_halves(even, odd) & kept, left));
        cortado_store4(to + 4, cortado_shl(cortado_high_halves(even, odd) & kept, left));
    }
#endif
    for (int32_t i = 0; i < n; i++) {
        out[i] = (int16_t)cortado_shl(in[i] - zero, left);
    }
}

#endif
