/* SPDX-License-Identifier: Apache-2.0
 *
 * What kernels of float32 share: results as they are stored, rows as numbers. Internal.
 */
#ifndef CORTADO_FLOAT_H
#define CORTADO_FLOAT_H

#include "cortado.h"
#include "cortado_f32.h"

/* A result between two bounds, as it is stored; NaN stays what it is. */
static inline float cortado_bounded(float v, float low, float high)
{
    v = v < low ? low : v;
    return cortado_f32_canonical(v > high ? high : v);
}

/* A row of numbers; rows are handed over as bytes, and lie at multiples of four. */
static inline const float *cortado_numbers(const int8_t *row)
{
    return (const float *)(const void *)row;
}

#endif /* CORTADO_FLOAT_H */
