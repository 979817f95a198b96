/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of angles and powers in float32, each over a row.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado_f32_angles.h"
#include "cortado_operands_f32.h"

void cortado_sin_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_sin(in[i]);
    }
}

void cortado_cos_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_cos(in[i]);
    }
}

void cortado_tan_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_tan(in[i]);
    }
}

void cortado_atan_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_atan(in[i]);
    }
}

void cortado_asin_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_asin(in[i]);
    }
}

void cortado_acos_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_acos(in[i]);
    }
}

/* Within bounds, where there are some. */
static void bound(const cortado_calculate_f32_t *L, float *out, int32_t n)
{
    const float infinity = cortado_f32_infinity();
    if (L->act_min != -infinity || L->act_max != infinity) {
        for (int32_t i = 0; i < n; i++) {
            out[i] = cortado_bounded(out[i], L->act_min, L->act_max);
        }
    }
}

static void angles(const cortado_calculate_f32_t *L, const cortado_operands_f32_t S, float *out, int32_t n)
{
    CORTADO_EACH_F32(S, out, n, cortado_f32_atan2(x, y));
    bound(L, out, n);
}

void cortado_atan2_f32(const cortado_calculate_f32_t *L, const float *a, const float *b, float *out, int32_t n)
{
    cortado_spans_f32(L, a, b, out, n, angles);
}

/* Of one exponent, if it is a usual one. */
static void usual_powers(const float *x, const float *y, cortado_f32_exponent_t exponent, float *out, int32_t n)
{
    for (const float *const end = x + n; x < end; x++) {
        uint32_t found;
        if (!cortado_f32_usual_pow(cortado_f32_bits(*x), exponent, &found)) {
            CORTADO_STAY_A_LOOP; /* what is rarely needed is read once more */
            found = cortado_f32_bits(cortado_f32_any_pow(*x, *y));
        }
        *out++ = cortado_f32_from(found);
    }
}

static void powers(const cortado_calculate_f32_t *L, const cortado_operands_f32_t S, float *out, int32_t n)
{
    const cortado_f32_exponent_t exponent = cortado_f32_exponent(*S.b);
    if (exponent.down != 0 && S.a_step == 1 && S.b_step == 0) {
        usual_powers(S.a, S.b, exponent, out, n);
    } else {
        CORTADO_EACH_F32(S, out, n, cortado_f32_pow(x, y));
    }
    bound(L, out, n);
}

void cortado_pow_f32(const cortado_calculate_f32_t *L, const float *a, const float *b, float *out, int32_t n)
{
    cortado_spans_f32(L, a, b, out, n, powers);
}
