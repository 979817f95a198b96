/* SPDX-License-Identifier: Apache-2.0
 *
 * A tensor times a number, and a product of matrices added to it, in float32: a step of gradient descent.
 *
 * Tile: 4 elements. Scratch: none.
 */
#include "cortado_float.h"

/* One element. */
static float updated(const cortado_update_f32_t *L, float self, const float *factor, const float *rows,
                     const float *other)
{
    float sum = cortado_f32_mul(factor[0], rows[0]);
    for (int32_t k = 1; k < L->depth; k++) {
        sum = sum + cortado_f32_mul(factor[k], rows[k * L->columns]);
    }
    if (other != NULL) {
        sum = sum + cortado_f32_mul(*other, L->decay);
    }
    return cortado_f32_mul(self, L->weight) + sum;
}

#if !defined(__arm__) || (defined(__ARM_FP) && (__ARM_FP & 4))
/* Groups of four, where the sums are one product each; returns how many elements they are. `found` adds up the results:
 * it is NaN if one of them is. */
static int32_t fours(const cortado_update_f32_t *L, const float *self, float f, const float *rows, const float *other,
                     float *out, float *found)
{
    const float weight = L->weight, decay = L->decay;
    float all = 0.0f;
    int32_t left = L->columns;
    for (; left >= 4; left -= 4, self += 4, rows += 4, out += 4) {
        float a = cortado_f32_mul(f, rows[0]), b = cortado_f32_mul(f, rows[1]);
        float c = cortado_f32_mul(f, rows[2]), d = cortado_f32_mul(f, rows[3]);
        if (other != NULL) {
            const float x = cortado_f32_mul(other[0], decay), y = cortado_f32_mul(other[1], decay);
            const float z = cortado_f32_mul(other[2], decay), w = cortado_f32_mul(other[3], decay);
            a = a + x;
            b = b + y;
            c = c + z;
            d = d + w;
            other += 4;
        }
        const float x = cortado_f32_mul(self[0], weight), y = cortado_f32_mul(self[1], weight);
        const float z = cortado_f32_mul(self[2], weight), w = cortado_f32_mul(self[3], weight);
        a = x + a;
        b = y + b;
        c = z + c;
        d = w + d;
        out[0] = a;
        out[1] = b;
        out[2] = c;
        out[3] = d;
        all = all + ((a + b) + (c + d));
        CORTADO_STAY_A_LOOP;
    }
    *found = all;
    return L->columns - left;
}
#else
static int32_t fours(const cortado_update_f32_t *L, const float *self, float f, const float *rows, const float *other,
                     float *out, float *found)
{
    (void)L, (void)self, (void)f, (void)rows, (void)other, (void)out;
    *found = 0.0f;
    return 0;
}
#endif

void cortado_update_f32(const cortado_update_f32_t *L, const float *self, const float *factor, const float *rows,
                        const float *other, float *out)
{
    for (int32_t row = 0; row < L->rows; row++, factor += L->depth) {
        float all = 0.0f;
        const int32_t done = L->depth == 1 ? fours(L, self, factor[0], rows, other, out, &all) : 0;
        for (int32_t i = done; i < L->columns; i++) {
            out[i] = cortado_f32_canonical(updated(L, self[i], factor, rows + i, other == NULL ? NULL : other + i));
        }
        if (!(all == all)) {
            for (int32_t i = 0; i < done; i++) {
                out[i] = cortado_f32_canonical(out[i]);
            }
        }
        self += L->columns;
        out += L->columns;
        other = other == NULL ? NULL : other + L->columns;
    }
}
