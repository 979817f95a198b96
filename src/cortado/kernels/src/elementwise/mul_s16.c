/* SPDX-License-Identifier: Apache-2.0
 *
 * Product of 16-bit codes: two tensors of one shape, or a tensor and one value per channel.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

/* A product has 31 bits, and is never shifted to the left. */
static inline int16_t mul_one(const cortado_mul_s16_t *L, int32_t a, int32_t b)
{
    const int32_t v = cortado_divide_pow2(cortado_mul_high(a * b, L->multiplier), L->right);
    return (int16_t)cortado_clamp(v, L->act_min, L->act_max);
}

void cortado_mul_s16(const cortado_mul_s16_t *L, const int16_t *a, const int16_t *b, int16_t *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = mul_one(L, a[i], b[i]);
    }
}

void cortado_mul_channel_s16(const cortado_mul_s16_t *L, const int16_t *a, const int16_t *b, int16_t *out, int32_t n,
                             int32_t channels)
{
    for (int32_t i = 0; i < n; i += channels) {
        for (int32_t c = 0; c < channels; c++) {
            out[i + c] = mul_one(L, a[i + c], b[c]);
        }
    }
}
