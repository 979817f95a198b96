/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants of a normalized group. Internal.
 */
#ifndef CORTADO_NORMALIZE_H
#define CORTADO_NORMALIZE_H

#include "cortado.h"
#include "cortado_math.h"

/* 1 / (2 * sqrt(a)) with 30 fractional bits, for a in [1/4, 1) with 31: a line within 9%, then three Newton steps. */
static inline int32_t cortado_inverse_root(int32_t a)
{
    int32_t root = 1145682526 - cortado_mul_high(a, 654982513);
    for (int i = 0; i < 3; i++) {
        const int32_t quarter = cortado_mul_high(cortado_mul_high(root, root), a); /* a * root^2, 29 fractional bits */
        root = cortado_mul_high(root, (3 << 29) - (quarter << 2)) << 1;
    }
    return cortado_min(root, (1 << 30) - 1);
}

/* high(a * b), one of them doubled before on cores with a long multiply: its high word is then rounded alike. */
#define CORTADO_DOUBLED (CORTADO_SMALL_CORE ? 0 : 1)

static inline int32_t cortado_high(int32_t a, int32_t b)
{
#if CORTADO_SMALL_CORE
    return cortado_mul_high(a, b);
#elif defined(__ARM_FEATURE_DSP)
    int32_t v;
    __asm__("smmulr %0, %1, %2" : "=r"(v) : "r"(a), "r"(b));
    return v;
#else
    return (int32_t)(((int64_t)a * b + 0x80000000) >> 32);
#endif
}

/* Constants of one group: deviation = q * step - middle modulo 2^32, which fits 31 bits. */
typedef struct {
    uint32_t step, middle;
    int32_t root;
} cortado_group_t;

static inline cortado_group_t cortado_group(const cortado_normalize_t *L, int32_t count, int32_t sum, uint64_t squares)
{
    const int32_t middle = L->centered ? sum : count * L->in_zero;
    const int64_t n = count, total = sum, apart = (int64_t)sum - middle;
    uint64_t variance = (uint64_t)n * squares - (uint64_t)(total * total) + (uint64_t)(apart * apart);
    variance = L->variance_shift < 0 ? variance >> -L->variance_shift : variance << L->variance_shift;
    variance += ((uint64_t)(uint32_t)L->epsilon_high << 31) + (uint32_t)L->epsilon_low;
    cortado_group_t group = {0, 0, 0};
    if (variance == 0) { /* then every deviation is 0 */
        return group;
    }
    int32_t left = L->exponent;
    for (; variance >> 32 != 0; variance >>= 2) {
        left--;
    }
    for (; variance < 1u << 30; variance <<= 2) {
        left++;
    }
    group.root = (cortado_inverse_root((int32_t)(variance >> 1)) >> cortado_max(-left, 0)) << CORTADO_DOUBLED;
    left = cortado_clamp(left, 0, 30) + CORTADO_DOUBLED; /* beyond 30 there is no deviation */
    group.step = (uint32_t)count << left;
    group.middle = (uint32_t)middle << left;
    return group;
}

#endif /* CORTADO_NORMALIZE_H */
