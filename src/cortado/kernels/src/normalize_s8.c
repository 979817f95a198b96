/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalization by the mean and variance of a group of channels.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

/* 1 / (2 * sqrt(a)) with 30 fractional bits, for a in [1/4, 1) with 31: a line within 9%, then three Newton steps. */
static int32_t inverse_root(int32_t a)
{
    int32_t root = 1145682526 - cortado_mul_high(a, 654982513);
    for (int i = 0; i < 3; i++) {
        const int32_t quarter = cortado_mul_high(cortado_mul_high(root, root), a); /* a * root^2, 29 fractional bits */
        root = cortado_mul_high(root, (3 << 29) - (quarter << 2)) << 1;
    }
    return cortado_min(root, 1 << 30);
}

/* What the elements of one group have in common: deviation = q * step - middle, modulo 2^32, where it fits 31 bits. */
typedef struct {
    uint32_t step, middle;
    int32_t root;
} group_t;

static group_t group_of(const cortado_normalize_t *L, int32_t count, int32_t sum, uint64_t squares)
{
    const int32_t middle = L->centered ? sum : count * L->in_zero;
    const int64_t n = count, total = sum, apart = (int64_t)sum - middle;
    uint64_t variance = (uint64_t)n * squares - (uint64_t)(total * total) + (uint64_t)(apart * apart);
    variance = L->variance_shift < 0 ? variance >> -L->variance_shift : variance << L->variance_shift;
    variance += ((uint64_t)(uint32_t)L->epsilon_high << 31) + (uint32_t)L->epsilon_low;
    group_t group = {(uint32_t)count, (uint32_t)middle, 0};
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
    group.root = inverse_root((int32_t)(variance >> 1));
    if (left < 0) {
        group.root >>= -left;
        return group;
    }
    left = cortado_min(left, 31);
    group.step <<= left;
    group.middle <<= left;
    return group;
}

void cortado_normalize_s8(const cortado_normalize_t *L, const int8_t *in, int8_t *out, int32_t samples)
{
    const int32_t channels = L->channels, pixels = L->pixels, next = L->pixel_stride, count = channels * pixels;
    const int32_t low = L->act_min, high = L->act_max, bits = L->fraction_bits;
    for (; samples > 0; samples--, in += count * L->groups, out += count * L->groups) {
        const int32_t *scale = L->scale, *offset = L->offset;
        for (int32_t g = 0, at = 0; g < L->groups; g++) {
            int32_t sum = 0;
            uint64_t squares = 0;
            for (int32_t c = 0; c < channels; c++) {
                const int8_t *q = in + at + c * L->channel_stride;
                for (int32_t p = 0; p < pixels; p++, q += next) {
                    sum += *q;
                    squares += (uint32_t)(*q * *q);
                }
            }
            const group_t group = group_of(L, count, sum, squares);
            for (int32_t c = 0; c < channels; c++, at += L->channel_stride) {
                const int32_t factor = cortado_mul_high(*scale, group.root), add = *offset;
                const int8_t *q = in + at;
                int8_t *result = out + at;
                for (int32_t p = 0; p < pixels; p++, q += next, result += next) {
                    const int32_t deviation = (int32_t)((uint32_t)*q * group.step - group.middle);
                    *result = (int8_t)cortado_clamp((cortado_mul_high(deviation, factor) + add) >> bits, low, high);
                }
                scale += L->by_channel;
                offset += L->by_channel;
            }
        }
    }
}
