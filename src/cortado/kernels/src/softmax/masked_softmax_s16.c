/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax of 16-bit codes over what a mask keeps of every row: a constant mask of bits, or computed ones of bytes.
 *
 * Tile: 1 row. Scratch: none.
 */
#include "cortado_powers.h"

/* A row's mask: bits that are 1 where something is masked, or bytes that are not 0 where it is kept, or none. */
typedef struct {
    const uint8_t *bits;
    const int8_t *kept;
} mask_t;

static inline int32_t keeps(mask_t mask, int32_t i)
{
    return mask.bits != NULL ? (mask.bits[i >> 3] >> (i & 7) & 1) == 0 : mask.kept == NULL || mask.kept[i] != 0;
}

static int32_t keeps_some(mask_t mask, int32_t n)
{
    int32_t i = 0;
    while (i < n && !keeps(mask, i)) {
        i++;
    }
    return i < n;
}

/* Softmax over the values that are kept, at least one; 0 elsewhere. `alike`: equal parts for all of them. */
static void softmax_kept(const cortado_softmax_s16_t *L, mask_t mask, int32_t alike, const int16_t *in, int16_t *out)
{
    const int32_t n = L->channels;
    int32_t largest = -32768;
    uint32_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        largest = keeps(mask, i) ? cortado_max(largest, in[i]) : largest;
    }
    for (int32_t i = 0; i < n; i++) {
        sum += keeps(mask, i) ? cortado_power(L, alike ? 0 : cortado_distance(L, largest - in[i])) : 0;
    }
    const uint32_t inverse = (uint32_t)(((uint64_t)1 << 46) / sum);
    for (int32_t i = 0; i < n; i++) {
        uint64_t v = 0;
        if (keeps(mask, i) != 0) {
            const uint32_t power = cortado_power(L, alike ? 0 : cortado_distance(L, largest - in[i]));
            v = ((uint64_t)power * inverse + (1u << 30)) >> 31;
        }
        out[i] = (int16_t)(v > 32767 ? 32767 : v);
    }
}

static void fill(int16_t *out, int32_t n, int32_t code)
{
    for (int32_t i = 0; i < n; i++) {
        out[i] = (int16_t)code;
        CORTADO_STAY_A_LOOP;
    }
}

static void masked(const cortado_masked_softmax_s16_t *L, mask_t mask, const int8_t *weaker, const int16_t *in,
                   int16_t *out)
{
    const mask_t all = {NULL, NULL}, second = {NULL, weaker};
    const cortado_softmax_s16_t row = {L->length, L->multiplier, L->shift, L->bits, L->powers};
    if (keeps_some(mask, L->length) != 0) {
        softmax_kept(&row, mask, 0, in, out);
    } else if (weaker != NULL && keeps_some(second, L->length)) {
        softmax_kept(&row, second, L->nothing <= 32767, in, out);
    } else if (weaker != NULL && L->zeros) {
        fill(out, L->length, 0);
    } else if (L->nothing <= 32767) {
        fill(out, L->length, L->nothing);
    } else {
        softmax_kept(&row, all, 0, in, out);
    }
}

void cortado_masked_softmax_s16(const cortado_masked_softmax_s16_t *L, const int16_t *in, int16_t *out, int32_t rows)
{
    const int32_t stride = (L->length + 7) >> 3;
    mask_t mask = {L->mask, NULL};
    for (int32_t r = 0; rows > 0; rows--, in += L->length, out += L->length) {
        masked(L, mask, NULL, in, out);
        mask.bits = ++r < L->kept_rows ? mask.bits + stride : L->mask;
        r = r < L->kept_rows ? r : 0;
    }
}

void cortado_kept_softmax_s16(const cortado_masked_softmax_s16_t *L, const int16_t *in, const int8_t *kept,
                              const int8_t *weaker, int16_t *out)
{
    const int32_t n = L->length;
    for (int32_t r = 0; r < L->rows; r++, in += n, out += n) {
        const mask_t mask = {NULL, kept + r % L->kept_rows * n};
        masked(L, mask, weaker == NULL ? NULL : weaker + r % L->weaker_rows * n, in, out);
    }
}
