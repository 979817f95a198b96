/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels of spectra without vector instructions share: samples, the stages that are rare, sums. Internal.
 */
#ifndef CORTADO_SPECTRUM_FRAME_H
#define CORTADO_SPECTRUM_FRAME_H

#include "cortado_spectrum.h"

/* The samples of the window one after the other, an even number of them, each to be shifted left; `exponent`: by how
 * many bits they are then, those included that they were shifted before. */
typedef struct {
    const int16_t *samples;
    const int32_t *window;
    int32_t pairs;
    int32_t shift, exponent;
} cortado_windowed_t;

/* Copies the samples, and gives bits up to the highest that they have beside their signs. */
static inline uint32_t cortado_sample_bits(const cortado_spectrum_t *L, const int8_t *const rows[], int16_t *samples)
{
    int32_t at = L->skip, left = L->window_length;
    uint32_t bits = 0, both = 0;
    for (; at >= L->block; at -= L->block) {
        rows++;
    }
    for (; left > 0; at = 0) {
        const int16_t *from = (const int16_t *)(const void *)*rows++ + at;
        int32_t n = cortado_min(L->block - at, left);
        left -= n;
        if ((((uintptr_t)from | (uintptr_t)samples) & 3) == 0) {
            /* Two at a time: where a bit differs from the next lower one; the lowest of each half says nothing. */
            const uint32_t *pairs = (const uint32_t *)(const void *)from;
            uint32_t *to = (uint32_t *)(void *)samples;
            for (; n > 3; n -= 4) {
                const uint32_t v = *pairs++, w = *pairs++;
                *to++ = v;
                *to++ = w;
                both |= (v ^ (v << 1)) | (w ^ (w << 1));
            }
            from = (const int16_t *)(const void *)pairs;
            samples = (int16_t *)(void *)to;
        }
        for (; n > 0; n--) {
            const int32_t v = *from++;
            *samples++ = (int16_t)v;
            bits |= (uint32_t)(v ^ (v >> 15));
        }
    }
    if ((L->window_length & 1) != 0) {
        *samples = 0;
    }
    return bits | (((both >> 16 | both) & 0xFFFE) >> 1);
}

/* Makes each sample of the window itself less a part of the one before it, halved, and shifted left as far as all of
 * them can be; gives by how many bits. In front of the samples is room for one more. */
static CORTADO_ONCE int32_t cortado_emphasize(const cortado_spectrum_t *L, const int8_t *const rows[],
                                              int16_t *samples)
{
    const int32_t part = L->emphasis;
    int16_t *const first = samples - 1, *last = first + L->window_length;
    uint32_t bits = 0;
    *first = cortado_sample_before(L, rows);
    for (const int16_t *p = last; p > first; p--) {
        const int32_t v = p[0] * (1 << 15) - p[-1] * part;
        bits |= (uint32_t)(v ^ (v >> 31));
    }
    const int32_t shift = cortado_emphasis_shift(L, bits), right = 15 - shift;
    for (; last > first; last--) {
        const int32_t v = last[0] * (1 << 15) - last[-1] * part;
        *last = (int16_t)cortado_min(((v >> right) + 1) >> 1, 32767);
    }
    return shift;
}

static inline cortado_windowed_t cortado_gather(const cortado_spectrum_t *L, const int8_t *const rows[],
                                                int16_t *samples)
{
    const uint32_t bits = cortado_sample_bits(L, rows, samples);
    const int32_t shift = cortado_min(bits == 0 ? 15 : cortado_leading_zeros(bits) - 17, L->headroom);
    cortado_windowed_t w = {samples, L->window, (L->window_length + 1) / 2, shift, shift};
    if (L->emphasis != 0) {
        w.shift = 0;
        w.exponent = cortado_emphasize(L, rows, samples);
    }
    return w;
}

static inline cortado_complex_t cortado_pair(const int16_t *v, const int32_t *w, int32_t shift)
{
    return cortado_complex(cortado_mulw(w[0], v[0] * (1 << shift)), cortado_mulw(w[1], v[1] * (1 << shift)));
}

/* Twiddles of 1. */
static const int32_t cortado_ones[4] = {0x8000, 0x8000, 0x8000, 0x8000};

/* The first stage has no twiddles and no shift. Of any radix it is a stage with twiddles of 1 and legs of one number:
 * doubled ones, each at its place. */
static CORTADO_SELDOM void cortado_first_numbers(const cortado_spectrum_t *L, const cortado_windowed_t *s,
                                                 cortado_bin_t *bins)
{
    const int32_t radix = L->radix[0], q = cortado_groups(L, 0);
    for (int32_t b = 0; b < q; b++) {
        cortado_complex_t *out = &bins[radix * (uint16_t)L->places[b]].z;
        for (int32_t n = b; n < radix * q; n += q, out++) {
            *out = cortado_complex(0, 0);
            if (n < s->pairs) {
                const cortado_complex_t v = cortado_pair(s->samples + 2 * n, s->window + 2 * n, s->shift);
                *out = cortado_plus(v, v);
            }
        }
    }
}

/* Stages: `count` groups of radix legs of q numbers. */
static inline void cortado_stage2(cortado_complex_t *z, const int32_t *twiddles, int32_t q, int32_t count)
{
    for (int32_t k = 0; k < q; k++) {
        const cortado_twiddle_t w = cortado_twiddle(*twiddles++);
        cortado_complex_t *p = z + k;
        for (int32_t n = count; n > 0; n--, p += 2 * q) {
            cortado_butterfly2(p, q, cortado_half(p[0]), cortado_turned(p[q], w));
        }
    }
}

static CORTADO_SELDOM void cortado_stage3(cortado_complex_t *z, const int32_t *twiddles, int32_t q, int32_t count)
{
    for (int32_t k = 0; k < q; k++, twiddles += 2) {
        const cortado_twiddle_t u = cortado_twiddle(twiddles[0]), v = cortado_twiddle(twiddles[1]);
        cortado_complex_t *p = z + k;
        for (int32_t n = count; n > 0; n--, p += 3 * q) {
            cortado_butterfly3(p, q, cortado_half(p[0]), cortado_turned(p[q], u), cortado_turned(p[2 * q], v));
        }
    }
}

static inline void cortado_stage5(cortado_complex_t *z, const int32_t *twiddles, int32_t q, int32_t count)
{
    for (int32_t k = 0; k < q; k++, twiddles += 4) {
        cortado_complex_t *p = z + k;
        for (int32_t n = count; n > 0; n--, p += 5 * q) {
            cortado_butterfly5(p, q, cortado_turned(p[q], cortado_twiddle(twiddles[0])),
                               cortado_turned(p[2 * q], cortado_twiddle(twiddles[1])),
                               cortado_turned(p[3 * q], cortado_twiddle(twiddles[2])),
                               cortado_turned(p[4 * q], cortado_twiddle(twiddles[3])));
        }
    }
}

/* Any but 4. */
static inline void cortado_other_stage(cortado_complex_t *z, const int32_t *twiddles, int32_t q, int32_t count,
                                       int32_t radix)
{
    if (radix == 2) {
        cortado_stage2(z, twiddles, q, count);
    } else if (radix == 3) {
        cortado_stage3(z, twiddles, q, count);
    } else {
        cortado_stage5(z, twiddles, q, count);
    }
}

/* floor(sum of w * power / 2^16), sum of w * magnitude; n > 0. */
#if defined(__thumb__) && CORTADO_SMALL_CORE
#define CORTADO_SUMS_ARE_ASSEMBLY
uint64_t cortado_spectrum_power_sum_s16__scalar(const cortado_bin_t *bin, const uint16_t *w, int32_t n);
uint64_t cortado_spectrum_size_sum_s16__scalar(const cortado_bin_t *bin, const uint16_t *w, int32_t n);
#define cortado_power_sum cortado_spectrum_power_sum_s16__scalar
#define cortado_size_sum cortado_spectrum_size_sum_s16__scalar
#else
static inline uint64_t cortado_power_sum(const cortado_bin_t *bin, const uint16_t *w, int32_t n)
{
    uint64_t low = 0, high = 0;
    for (; n > 0; n--, bin++) {
        const uint32_t v = *w++;
        low += (uint64_t)bin->word[0] * v;
        high += (uint64_t)bin->word[1] * v;
    }
    return (high << 16) + (low >> 16);
}

static inline uint64_t cortado_size_sum(const cortado_bin_t *bin, const uint16_t *w, int32_t n)
{
    uint64_t sum = 0;
    for (; n > 0; n--, bin++) {
        sum += (uint64_t)bin->word[0] * *w++;
    }
    return sum;
}
#endif

/* All bands. */
static inline void cortado_bands(const cortado_spectrum_t *L, const cortado_bin_t *bins, int8_t *out, int32_t shift)
{
    const uint16_t *weights = (const uint16_t *)(const void *)L->weights;
    const uint64_t floor = cortado_floor(L, shift);
    const int32_t power = L->power;
    for (int32_t b = 0; b < L->bands; b++) {
        const int32_t count = L->counts[b];
        const cortado_bin_t *from = bins + L->starts[b];
        const uint64_t acc =
            power == 2 ? cortado_power_sum(from, weights, count) : cortado_size_sum(from, weights, count);
        weights += count;
        out = cortado_put_band(L, out, acc, floor, power * shift);
    }
}

#endif /* CORTADO_SPECTRUM_FRAME_H */
