/* SPDX-License-Identifier: Apache-2.0
 *
 * Multiplication of every pixel by one value per channel with DSP instructions, where the output is shifted right by 1
 * to 20 and any code is allowed.
 *
 * Tile: 1 pixel x 4 channels. Scratch: none.
 *
 * out = (v + v / 2^31 + offset) / 2^right, v = round((a - a_zero) * (b - b_zero) * 2 * multiplier / 2^32), divisions
 * towards minus infinity: ties go away from zero. The offset is half of 2^right and the output's zero point times it.
 * Differences are halfwords, those of channels 0 and 2 and those of 1 and 3; those of b are doubled.
 */
#include "cortado.h"

#if defined(__ARM_FEATURE_DSP)
#include "cortado_dsp.h"
#include "cortado_mul.h"

typedef struct {
    int32_t multiplier, right, offset;
} factor_t;

/* One output of a product, doubled. */
static inline int32_t output(int32_t product, const factor_t *f)
{
    int32_t v;
    __asm__("smmulr %0, %1, %2" : "=r"(v) : "r"(product), "r"(f->multiplier));
    v = (v + (v >> 31) + f->offset) >> f->right;
    __asm__("ssat %0, #8, %0" : "+r"(v));
    return v;
}

/* Products of the lower and of the upper halfwords. */
static inline int32_t lower(int32_t a, int32_t b)
{
    int32_t v;
    __asm__("smulbb %0, %1, %2" : "=r"(v) : "r"(a), "r"(b));
    return v;
}

static inline int32_t upper(int32_t a, int32_t b)
{
    int32_t v;
    __asm__("smultt %0, %1, %2" : "=r"(v) : "r"(a), "r"(b));
    return v;
}

/* Four outputs of one pixel. */
static inline int32_t outputs(int32_t four, int32_t zeros, cortado_sums4_t b, const factor_t *f)
{
    int32_t even, odd, v, next;
    __asm__("sxtab16 %0, %1, %2" : "=r"(even) : "r"(zeros), "r"(four));
    __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(odd) : "r"(zeros), "r"(four));
    v = output(lower(even, b.even), f);
    next = output(lower(odd, b.odd), f);
    __asm__("bfi %0, %1, #8, #8" : "+r"(v) : "r"(next));
    next = output(upper(even, b.even), f);
    __asm__("bfi %0, %1, #16, #8" : "+r"(v) : "r"(next));
    next = output(upper(odd, b.odd), f);
    __asm__("bfi %0, %1, #24, #8" : "+r"(v) : "r"(next));
    return v;
}

static inline int32_t halfwords(int32_t lower_one, int32_t upper_one)
{
    return (int32_t)((uint32_t)(lower_one & 0xFFFF) | (uint32_t)upper_one << 16);
}

void cortado_mul_channel_s8__dsp(const cortado_mul_t *L, const int8_t *a, const int8_t *b, int8_t *out, int32_t n,
                                 int32_t channels)
{
    const int32_t right = -L->out_shift, zeros = halfwords(-L->a_zero, -L->a_zero);
    const factor_t factor = {L->out_multiplier, right, (1 << (right - 1)) + L->out_zero * (1 << right)};
    const int32_t span = cortado_channel_span(a, out, n, channels);
    for (int32_t end = span; end <= n; end += span) {
        int32_t c = 0;
        for (; c <= channels - 4; c += 4) {
            const int32_t z = L->b_zero;
            const cortado_sums4_t other = {halfwords(2 * (b[c] - z), 2 * (b[c + 2] - z)),
                                           halfwords(2 * (b[c + 1] - z), 2 * (b[c + 3] - z))};
            for (int32_t i = end - span + c; i < end; i += channels) {
                cortado_store4(out + i, outputs(cortado_load4(a + i), zeros, other, &factor));
            }
        }
        for (; c < channels; c++) {
            const int32_t other = 2 * (b[c] - L->b_zero);
            for (int32_t i = end - span + c; i < end; i += channels) {
                out[i] = (int8_t)output((a[i] - L->a_zero) * other, &factor);
            }
        }
    }
}
#else
typedef int cortado_mul_channel_needs_dsp; /* an empty translation unit is not C */
#endif
