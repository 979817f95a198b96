/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of pooling with vector instructions, up to sixteen channels at a time. Internal. Described in
 * pool16_s8__mve.S.
 */
#ifndef POOL16_S8__MVE_H
#define POOL16_S8__MVE_H

#include "cortado.h"
#include "cortado_math.h"

void cortado_pool16_add_s8__mve(int16_t *sums, const int8_t *in, int32_t step, int32_t pixels, int32_t channels);
void cortado_pool16_max_s8__mve(int8_t *largest, const int8_t *in, int32_t step, int32_t pixels, int32_t channels);
void cortado_pool16_means_s8__mve(const int16_t *sums, int8_t *out, int32_t channels, const int32_t division[4]);

static inline void cortado_pool16_clear(int16_t sums[16])
{
    for (int i = 0; i < 16; i++) {
        sums[i] = 0;
    }
}

#endif /* POOL16_S8__MVE_H */
