/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of one number in float32, each over a row.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado_float.h"

void cortado_bounds_f32(const cortado_bounds_f32_t *L, const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_bounded(in[i], L->low, L->high);
    }
}

void cortado_neg_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_canonical(-in[i]);
    }
}

void cortado_sign_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = in[i] > 0.0f ? 1.0f : in[i] < 0.0f ? -1.0f : 0.0f;
    }
}

/* Halves go to the even integer. */
void cortado_round_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_canonical(cortado_f32_rint(in[i]));
    }
}

void cortado_exp_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_exp(in[i]);
    }
}

void cortado_exp2_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_exp2(in[i]);
    }
}

void cortado_expm1_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_expm1(in[i]);
    }
}

void cortado_sigmoid_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_sigmoid(in[i]);
    }
}

void cortado_tanh_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_tanh(in[i]);
    }
}

void cortado_erf_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_erf(in[i]);
    }
}

void cortado_log_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_log(in[i]);
    }
}

void cortado_log2_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_log2(in[i]);
    }
}

void cortado_log10_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_log10(in[i]);
    }
}

void cortado_log1p_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_log1p(in[i]);
    }
}

void cortado_sqrt_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_sqrt(in[i]);
    }
}

void cortado_rsqrt_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_rsqrt(in[i]);
    }
}

void cortado_reciprocal_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_reciprocal(in[i]);
    }
}

void cortado_trunc_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_canonical(cortado_f32_trunc(in[i]));
    }
}

void cortado_floor_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_canonical(cortado_f32_floor(in[i]));
    }
}

void cortado_ceil_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_canonical(cortado_f32_ceil(in[i]));
    }
}

void cortado_abs_f32(const float *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_canonical(cortado_f32_abs(in[i]));
    }
}
