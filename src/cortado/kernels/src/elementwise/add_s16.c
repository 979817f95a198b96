/* SPDX-License-Identifier: Apache-2.0
 *
 * Addition of 16-bit codes: two tensors of one shape, or a tensor and one value per channel.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
#endif

typedef struct {
    cortado_factor_t a, b, out;
    int32_t act_min, act_max;
} factors_t;

static factors_t factors_of(const cortado_add_s16_t *L)
{
    const factors_t f = {cortado_factor(L->a_multiplier, L->a_shift), cortado_factor(L->b_multiplier, L->b_shift),
                         cortado_factor(L->out_multiplier, L->out_shift), L->act_min, L->act_max};
    return f;
}

/* Codes have 15 bits and a sign, so that a difference and a sum have 28; doubled and shifted by two they still fit. */
#if defined(__ARM_FEATURE_MVE)

/* cortado_scale of four. */
static inline int32x4_t scale_four(int32x4_t v, cortado_factor_t f)
{
    v = vqrdmulhq_n_s32(vshlq_r_s32(v, f.left - 1), f.multiplier);
    v = vaddq_s32(v, vshrq_n_s32(vandq_s32(v, vdupq_n_s32(f.shift)), 31));
    return vrshlq_n_s32(v, -f.right);
}

static void add_all(const factors_t *f, const int16_t *a, const int16_t *b, int16_t *out, int32_t n)
{
    for (; n > 0; n -= 4, a += 4, b += 4, out += 4) {
        const mve_pred16_t some = vctp32q((uint32_t)n);
        const int32x4_t first = scale_four(vshlq_n_s32(vldrhq_z_s32(a, some), 13), f->a);
        const int32x4_t second = scale_four(vshlq_n_s32(vldrhq_z_s32(b, some), 13), f->b);
        int32x4_t sum = scale_four(vaddq_s32(first, second), f->out);
        sum = vminq_s32(vmaxq_s32(sum, vdupq_n_s32(f->act_min)), vdupq_n_s32(f->act_max));
        vstrhq_p_s32(out, sum, some);
    }
}

#else

static inline int16_t add_one(const factors_t *f, int32_t a, int32_t b)
{
    const int32_t sum = cortado_scale(a * (1 << 13), f->a) + cortado_scale(b * (1 << 13), f->b);
    return (int16_t)cortado_clamp(cortado_scale(sum, f->out), f->act_min, f->act_max);
}

static void add_all(const factors_t *f, const int16_t *a, const int16_t *b, int16_t *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = add_one(f, a[i], b[i]);
    }
}

#endif

void cortado_add_s16(const cortado_add_s16_t *L, const int16_t *a, const int16_t *b, int16_t *out, int32_t n)
{
    const factors_t f = factors_of(L);
    add_all(&f, a, b, out, n);
}

void cortado_add_channel_s16(const cortado_add_s16_t *L, const int16_t *a, const int16_t *b, int16_t *out, int32_t n,
                             int32_t channels)
{
    const factors_t f = factors_of(L);
    for (int32_t i = 0; i < n; i += channels) {
        add_all(&f, a + i, b, out + i, channels);
    }
}
