/* SPDX-License-Identifier: Apache-2.0
 *
 * Integers along one dimension: their sum, modulo 2^32 or bounded by 32 bits, the smallest or the largest of them, or
 * what that is so far.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"

static int32_t joined(int32_t a, int32_t b, int32_t how)
{
    if (how == CORTADO_SUM) {
        return (int32_t)((uint32_t)a + (uint32_t)b);
    }
    return (how == CORTADO_SMALLER) == (a < b) ? a : b;
}

static int32_t bounded(int64_t sum)
{
    return sum < INT32_MIN ? INT32_MIN : sum > INT32_MAX ? INT32_MAX : (int32_t)sum;
}

static void bounded_sum(const int32_t *source, int32_t *target, int32_t length, int32_t inner, int32_t step)
{
    int64_t sum = 0;
    for (int32_t k = 0; k < length; k++) {
        sum += source[k * inner];
        target[k * step] = bounded(sum);
    }
}

void cortado_reduce_s32(const int32_t *in, int32_t *out, int32_t outer, int32_t length, int32_t inner, int32_t how,
                        int32_t running)
{
    const int32_t kept = running != 0 ? length : 1;
    for (int32_t o = 0; o < outer; o++) {
        for (int32_t i = 0; i < inner; i++) {
            const int32_t *source = in + o * length * inner + i;
            int32_t *target = out + o * kept * inner + i;
            if (how == CORTADO_BOUNDED_SUM) {
                bounded_sum(source, target, length, inner, running != 0 ? inner : 0);
                continue;
            }
            int32_t found = source[0];
            target[0] = found;
            for (int32_t k = 1; k < length; k++) {
                found = joined(found, source[k * inner], how);
                target[running != 0 ? k * inner : 0] = found;
            }
        }
    }
}
