/* SPDX-License-Identifier: Apache-2.0
 *
 * One of two tensors, or of their single values, by truth values that are float32; values of 4 bytes. Conversions
 * between float32 and integers.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado_float.h"

void cortado_where_f32(const float *mask, const void *a, const void *b, void *out, int32_t n, int32_t a_step,
                       int32_t b_step)
{
    const uint32_t *first = a, *second = b;
    uint32_t *to = out;
    for (int32_t i = 0; i < n; i++) {
        to[i] = mask[i] != 0.0f ? first[i * a_step] : second[i * b_step];
    }
}

void cortado_from_s32_f32(const int32_t *in, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = (float)in[i];
    }
}

void cortado_to_s32_f32(const float *in, int32_t *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = cortado_f32_to_int(in[i], INT32_MIN, INT32_MAX);
    }
}

void cortado_to_bool_f32(const float *in, int8_t *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = in[i] != 0.0f;
    }
}
