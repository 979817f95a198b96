/* SPDX-License-Identifier: Apache-2.0
 *
 * Addition of 16-bit codes: two tensors of one shape, or a tensor and one value per channel.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

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
static inline int16_t add_one(const factors_t *f, int32_t a, int32_t b)
{
    const int32_t sum = cortado_scale(a * (1 << 13), f->a) + cortado_scale(b * (1 << 13), f->b);
    return (int16_t)cortado_clamp(cortado_scale(sum, f->out), f->act_min, f->act_max);
}

void cortado_add_s16(const cortado_add_s16_t *L, const int16_t *a, const int16_t *b, int16_t *out, int32_t n)
{
    const factors_t f = factors_of(L);
    for (int32_t i = 0; i < n; i++) {
        out[i] = add_one(&f, a[i], b[i]);
    }
}

void cortado_add_channel_s16(const cortado_add_s16_t *L, const int16_t *a, const int16_t *b, int16_t *out, int32_t n,
                             int32_t channels)
{
    const factors_t f = factors_of(L);
    for (int32_t i = 0; i < n; i += channels) {
        for (int32_t c = 0; c < channels; c++) {
            out[i + c] = add_one(&f, a[i + c], b[c]);
        }
    }
}
