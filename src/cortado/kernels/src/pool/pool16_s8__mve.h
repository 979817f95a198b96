/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of pooling with vector instructions, sixteen channels at a time. Internal. Described in
 * pool16_s8__mve.S.
 */
#ifndef POOL16_S8__MVE_H
#define POOL16_S8__MVE_H

#include "cortado.h"
#include "cortado_math.h"

/* Read by pool16_s8__mve.S. */
typedef struct {
    const int8_t *const *rows; /* under the window; NULL: outside of the image */
    int32_t kernel_h;
    int32_t step;   /* bytes from one tap to the next */
    int32_t stride; /* bytes from one output's window to the next one's */
    int32_t channels, act_min, act_max;
} cortado_pool16_max_t;

void cortado_pool16_add_s8__mve(int16_t *sums, const int8_t *in, int32_t step, int32_t pixels, int32_t channels);
void cortado_pool16_max_s8__mve(const cortado_pool16_max_t *P, int8_t *out, int32_t offset, int32_t taps,
                                int32_t pixels);
void cortado_pool16_means_s8__mve(const int16_t *sums, int8_t *out, int32_t channels, const int32_t division[4]);

static inline void cortado_pool16_clear(int16_t sums[16])
{
    for (int i = 0; i < 16; i++) {
        sums[i] = 0;
    }
}

#endif /* POOL16_S8__MVE_H */
