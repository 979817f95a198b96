/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of angles and powers in float32, each over a row.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado_f32_angles.h"
#include "cortado_float.h"

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

void cortado_atan2_f32(const cortado_calculate_f32_t *L, const float *a, const float *b, float *out, int32_t n)
{
    int32_t at_a = 0, at_b = 0;
    a = a == NULL ? &L->number : a;
    b = b == NULL ? &L->number : b;
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_bounded(cortado_f32_atan2(a[at_a], b[at_b]), L->act_min, L->act_max);
        at_a = at_a + 1 == L->a_period ? 0 : at_a + 1;
        at_b = at_b + 1 == L->b_period ? 0 : at_b + 1;
    }
}

void cortado_pow_f32(const cortado_calculate_f32_t *L, const float *a, const float *b, float *out, int32_t n)
{
    int32_t at_a = 0, at_b = 0;
    a = a == NULL ? &L->number : a;
    b = b == NULL ? &L->number : b;
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_bounded(cortado_f32_pow(a[at_a], b[at_b]), L->act_min, L->act_max);
        at_a = at_a + 1 == L->a_period ? 0 : at_a + 1;
        at_b = at_b + 1 == L->b_period ? 0 : at_b + 1;
    }
}
