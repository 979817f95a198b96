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

/* Between these two, every NaN that a float unit makes of numbers in memory is the one pattern; what is stored between
 * them is what an operation gave. */
#if defined(__thumb2__) && defined(__ARM_FP) && (__ARM_FP & 4)
#define CORTADO_ONE_NAN 1

static inline uint32_t cortado_one_nan(void)
{
    uint32_t before;
    __asm__ volatile("vmrs %0, fpscr" : "=r"(before));
    __asm__ volatile("vmsr fpscr, %0" : : "r"(before | 0x02000000u) : "memory"); /* DN */
    return before;
}

static inline void cortado_any_nan(uint32_t before) { __asm__ volatile("vmsr fpscr, %0" : : "r"(before) : "memory"); }

static inline float cortado_result(float x) { return x; }
#else
static inline uint32_t cortado_one_nan(void) { return 0; }

static inline void cortado_any_nan(uint32_t before) { (void)before; }

static inline float cortado_result(float x) { return cortado_f32_canonical(x); }
#endif

/* A row of numbers; rows are handed over as bytes, and lie at multiples of four. */
static inline const float *cortado_numbers(const int8_t *row)
{
    return (const float *)(const void *)row;
}

#endif /* CORTADO_FLOAT_H */
