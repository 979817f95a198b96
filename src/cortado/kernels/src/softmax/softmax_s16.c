/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax of 16-bit codes over the channels of each pixel: powers of two by a table, one division for each pixel.
 *
 * Tile: 1 pixel. Scratch: none.
 */
#include "cortado_powers.h"

static uint32_t power(const cortado_softmax_s16_t *L, int32_t below)
{
    return cortado_power(L, cortado_distance(L, below));
}

static int32_t largest_of(const int16_t *x, int32_t n)
{
    int32_t largest = x[0];
    for (int32_t i = 1; i < n; i++) {
        largest = cortado_max(largest, x[i]);
    }
    return largest;
}

void cortado_softmax_s16(const cortado_softmax_s16_t *L, const int16_t *in, int16_t *out, int32_t pixels)
{
    for (; pixels > 0; pixels--, in += L->channels, out += L->channels) {
        const int32_t largest = largest_of(in, L->channels);
        uint32_t sum = 0;
        for (int32_t i = 0; i < L->channels; i++) {
            sum += power(L, largest - in[i]);
        }
        const uint32_t inverse = (uint32_t)(((uint64_t)1 << 46) / sum);
        for (int32_t i = 0; i < L->channels; i++) {
            const uint64_t v = ((uint64_t)power(L, largest - in[i]) * inverse + (1u << 30)) >> 31;
            out[i] = (int16_t)(v > 32767 ? 32767 : v);
        }
    }
}
