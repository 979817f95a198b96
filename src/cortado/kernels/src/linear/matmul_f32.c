/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of matrices in float32.
 *
 * Tile: 4 outputs. Scratch: none.
 */
#include "cortado_float.h"

/* What one sum is made of: numbers that all four have in common, and those of the first; the next sum's are `apart`. */
typedef struct {
    const float *common, *own;
    int32_t common_step, own_step, apart;
} sums_t;

static void four(const sums_t S, int32_t depth, float *out)
{
    const float *x = S.common, *a = S.own, *b = a + S.apart, *c = b + S.apart, *d = c + S.apart;
    float s = 0.0f, t = 0.0f, u = 0.0f, v = 0.0f;
    for (int32_t k = depth; k > 0; k--, x += S.common_step) {
        const float y = *x;
        const float e = cortado_f32_mul(y, *a), f = cortado_f32_mul(y, *b);
        const float g = cortado_f32_mul(y, *c), h = cortado_f32_mul(y, *d);
        s = s + e;
        t = t + f;
        u = u + g;
        v = v + h;
        a += S.own_step;
        b += S.own_step;
        c += S.own_step;
        d += S.own_step;
    }
    out[0] = cortado_f32_canonical(s);
    out[1] = cortado_f32_canonical(t);
    out[2] = cortado_f32_canonical(u);
    out[3] = cortado_f32_canonical(v);
}

/* `count` sums, one behind the other. */
static float *sums(sums_t S, int32_t depth, int32_t count, float *out)
{
    for (; count >= 4; count -= 4, S.own += 4 * S.apart, out += 4) {
        four(S, depth, out);
    }
    for (; count > 0; count--, S.own += S.apart) {
        float sum = 0.0f;
        for (int32_t k = 0; k < depth; k++) {
            sum = sum + cortado_f32_mul(S.common[k * S.common_step], S.own[k * S.own_step]);
        }
        *out++ = cortado_f32_canonical(sum);
    }
    return out;
}

void cortado_matmul_f32(const cortado_matmul_f32_t *L, const float *a, const float *b, float *out)
{
    for (int32_t batch = 0; batch < L->batches; batch++, b += L->depth * L->columns) {
        if (L->columns == 1) { /* rows of a, which all meet the one column */
            const sums_t rows = {b, a, 1, 1, L->depth};
            out = sums(rows, L->depth, L->rows, out);
            a += L->depth * L->rows;
            continue;
        }
        for (int32_t row = 0; row < L->rows; row++, a += L->depth) {
            const sums_t columns = {a, b, 1, L->columns, 1};
            out = sums(columns, L->depth, L->columns, out);
        }
    }
}
