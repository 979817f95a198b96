/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums, products, means, the smallest and the largest of numbers in float32, and where they stand.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado_float.h"

static int is_beyond(float v, float found, int32_t how)
{
    return how == CORTADO_SMALLER ? v < found : v > found;
}

static float reduced(float found, float v, int32_t how)
{
    if (how == CORTADO_SUM || how == CORTADO_MEAN) {
        return found + v;
    }
    if (how == CORTADO_PRODUCT) {
        return found * v;
    }
    return is_beyond(v, found, how) || v != v ? v : found;
}

/* found + v[0] + v[inner] ...: `more` numbers. */
static float added(float found, const float *v, int32_t more, int32_t inner)
{
    for (; more > 0; more--, v += inner) {
        found = found + *v;
    }
    return found;
}

void cortado_reduce_f32(const float *in, float *out, int32_t outer, int32_t length, int32_t inner, int32_t how,
                        int32_t running)
{
    for (; outer > 0; outer--, in += length * inner, out += running != 0 ? length * inner : inner) {
        for (int32_t i = 0; i < inner; i++) {
            const int is_sum = running == 0 && (how == CORTADO_SUM || how == CORTADO_MEAN);
            float found = is_sum ? added(in[i], in + inner + i, length - 1, inner) : in[i];
            for (int32_t k = is_sum ? length : 1; k < length; k++) {
                if (running != 0) {
                    out[(k - 1) * inner + i] = cortado_f32_canonical(found);
                }
                found = reduced(found, in[k * inner + i], how);
            }
            if (how == CORTADO_MEAN) {
                found = found / (float)length;
            }
            out[(running != 0 ? length - 1 : 0) * inner + i] = cortado_f32_canonical(found);
        }
    }
}

void cortado_position_f32(const float *in, int32_t *out, int32_t outer, int32_t length, int32_t inner, int32_t how)
{
    for (; outer > 0; outer--, in += length * inner, out += inner) {
        for (int32_t i = 0; i < inner; i++) {
            int32_t at = 0;
            for (int32_t k = 1; k < length; k++) {
                const float v = in[k * inner + i], found = in[at * inner + i];
                at = is_beyond(v, found, how) || (v != v && found == found) ? k : at;
            }
            out[i] = at;
        }
    }
}
