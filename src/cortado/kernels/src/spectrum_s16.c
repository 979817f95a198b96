/* SPDX-License-Identifier: Apache-2.0
 *
 * A frame of samples as its spectrum in bands: window, real FFT, power or magnitude, weighted sums, and their
 * logarithm, their root or themselves as codes. Whatever its level, samples are shifted left as far as they can be.
 *
 * Tile: 1 frame. Scratch: 8 * (pairs + 1) bytes, and the window's samples.
 */
#include "cortado.h"
#include "cortado_fft.h"
#include "cortado_root.h"

#if CORTADO_SMALL_CORE
#define LEADING_ZEROS leading_zeros
/* Of a number that is not 0. */
static int32_t leading_zeros(uint32_t v)
{
    static const uint8_t few[16] = {4, 3, 2, 2, 1, 1, 1, 1};
    int32_t n = 0;
    if (v >> 16 == 0) {
        n += 16;
        v <<= 16;
    }
    if (v >> 24 == 0) {
        n += 8;
        v <<= 8;
    }
    if (v >> 28 == 0) {
        n += 4;
        v <<= 4;
    }
    return n + few[v >> 28];
}
#elif defined(__GNUC__)
#define LEADING_ZEROS __builtin_clz
#else
#define LEADING_ZEROS leading_zeros
static int32_t leading_zeros(uint32_t v)
{
    int32_t n = 0;
    for (; !(v >> 31); v <<= 1) {
        n++;
    }
    return n;
}
#endif

/* A bin: a complex number, then its power as two words, or its magnitude as the first of them. */
typedef union {
    cortado_complex_t z;
    uint32_t word[2];
} bin_t;

/* The samples of the window one after the other, an even number of them. Gives bits up to the highest that they have
 * beside their signs. */
static uint32_t gather(const cortado_spectrum_t *L, const int8_t *const rows[], int16_t *samples)
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

typedef struct {
    const int16_t *samples;
    const int32_t *window;
    int32_t pairs; /* of the window */
    int32_t shift;
} source_t;

static inline cortado_complex_t pair(const int16_t *v, const int32_t *w, int32_t shift)
{
    return cortado_complex(cortado_mulw(w[0], v[0] * (1 << shift)), cortado_mulw(w[1], v[1] * (1 << shift)));
}

/* Butterflies of radix 4 from `from` on, of which only so many legs hold samples. */
static inline void first_fours(const cortado_spectrum_t *L, const source_t *s, bin_t *bins, int32_t from, int32_t to,
                               int32_t legs)
{
    const int32_t q = L->pairs / 4, shift = s->shift;
    const cortado_complex_t none = cortado_complex(0, 0);
    const int16_t *v = s->samples + 2 * from;
    const int32_t *w = s->window + 2 * from;
    for (int32_t n = from; n < to; n++, v += 2, w += 2) {
        cortado_complex_t *p = &bins[4 * (uint16_t)L->places[n]].z;
        const cortado_complex_t a = pair(v, w, shift), b = legs > 1 ? pair(v + 2 * q, w + 2 * q, shift) : none;
        const cortado_complex_t c = legs > 2 ? pair(v + 4 * q, w + 4 * q, shift) : none;
        const cortado_complex_t d = legs > 3 ? pair(v + 6 * q, w + 6 * q, shift) : none;
        const cortado_complex_t even = cortado_plus(a, c), odd = cortado_minus(a, c);
        const cortado_complex_t sum = cortado_plus(b, d), side = cortado_minus(b, d);
        p[0] = cortado_plus(even, sum);
        p[1] = cortado_minus_j(odd, side);
        p[2] = cortado_minus(even, sum);
        p[3] = cortado_plus_j(odd, side);
    }
}

/* The first stage of another radix, or of a window that has less than two legs of four. */
static void first_others(const cortado_spectrum_t *L, const source_t *s, bin_t *bins)
{
    const int32_t radix = L->radix[0], q = L->pairs / radix;
    for (int32_t b = 0; b < q; b++) {
        cortado_complex_t *out = &bins[radix * (uint16_t)L->places[b]].z, leg[5];
        for (int32_t j = 0; j < radix; j++) {
            const int32_t n = b + j * q;
            leg[j] = cortado_complex(0, 0);
            if (n < s->pairs) {
                const cortado_complex_t v = pair(s->samples + 2 * n, s->window + 2 * n, s->shift);
                leg[j] = j > 0 ? cortado_negative(v) : v;
            }
        }
        if (radix == 4) {
            cortado_butterfly4(out, 1, leg[0], leg[1], leg[2], leg[3]);
        } else if (radix == 2) {
            cortado_butterfly2(out, 1, leg[0], leg[1]);
        } else if (radix == 3) {
            cortado_butterfly3(out, 1, leg[0], leg[1], leg[2]);
        } else {
            cortado_butterfly5(out, 1, leg[0], leg + 1);
        }
    }
}

/* Butterflies without twiddles and without a shift, each to its place. */
static void first_stage(const cortado_spectrum_t *L, const source_t *s, bin_t *bins)
{
    const int32_t q = L->pairs / 4, over = s->pairs - 3 * q;
    if (L->radix[0] != 4 || s->pairs < 2 * q) {
        first_others(L, s, bins);
    } else if (over >= 0) {
        first_fours(L, s, bins, 0, over, 4);
        first_fours(L, s, bins, over, q, 3);
    } else {
        first_fours(L, s, bins, 0, over + q, 3);
        first_fours(L, s, bins, over + q, q, 2);
    }
}

/* Stages: `count` groups of radix legs of q numbers. */
static void stage4(cortado_complex_t *z, const int32_t *twiddles, int32_t q, int32_t count)
{
    int32_t k = 0;
#if CORTADO_SMALL_CORE
    cortado_complex_t *o = z; /* of twiddles of 1, which are -32768: half of the negative */
    for (int32_t n = count; n > 0; n--, o += 4 * q) {
        const cortado_complex_t b = o[q], c = o[2 * q], d = o[3 * q];
        cortado_butterfly4(o, q, cortado_half(o[0]), cortado_half(cortado_negative(b)),
                           cortado_half(cortado_negative(c)), cortado_half(cortado_negative(d)));
    }
    k = 1;
    twiddles += 3;
#endif
    for (; k < q; k++, twiddles += 3) {
        const cortado_twiddle_t u = cortado_twiddle(twiddles[0]), v = cortado_twiddle(twiddles[1]),
                                w = cortado_twiddle(twiddles[2]);
        cortado_complex_t *p = z + k;
#if CORTADO_SMALL_CORE
        for (int32_t n = count; n > 0; n--, p += 4 * q) {
            const cortado_complex_t c = cortado_turned(p[2 * q], v), a = cortado_half(p[0]);
            const cortado_complex_t even = cortado_minus(a, c), odd = cortado_plus(a, c);
            const cortado_complex_t b = cortado_turned(p[q], u), d = cortado_turned(p[3 * q], w);
            const cortado_complex_t sum = cortado_plus(b, d), side = cortado_minus(b, d);
            p[0] = cortado_minus(even, sum);
            p[2 * q] = cortado_plus(even, sum);
            p[q] = cortado_plus_j(odd, side);
            p[3 * q] = cortado_minus_j(odd, side);
        }
#else
        for (int32_t n = count; n > 0; n--, p += q) {
            const cortado_complex_t a = cortado_half(*p);
            const cortado_complex_t b = cortado_turned(*(p = cortado_ahead(p, q)), u);
            const cortado_complex_t c = cortado_turned(*(p = cortado_ahead(p, q)), v);
            const cortado_complex_t even = cortado_minus(a, c), odd = cortado_plus(a, c);
            const cortado_complex_t d = cortado_turned(*(p = cortado_ahead(p, q)), w);
            const cortado_complex_t sum = cortado_plus(b, d), side = cortado_minus(b, d);
            *p = cortado_minus_j(odd, side);
            p = cortado_ahead(p, -q);
            *p = cortado_plus(even, sum);
            p = cortado_ahead(p, -q);
            *p = cortado_plus_j(odd, side);
            p = cortado_ahead(p, -q);
            *p = cortado_minus(even, sum);
            p += 3 * q;
        }
#endif
    }
}

static void stage2(cortado_complex_t *z, const int32_t *twiddles, int32_t q, int32_t count)
{
    for (int32_t k = 0; k < q; k++) {
        const cortado_twiddle_t w = cortado_twiddle(*twiddles++);
        cortado_complex_t *p = z + k;
        for (int32_t n = count; n > 0; n--, p += 2 * q) {
            cortado_butterfly2(p, q, cortado_half(p[0]), cortado_turned(p[q], w));
        }
    }
}

static void stage3(cortado_complex_t *z, const int32_t *twiddles, int32_t q, int32_t count)
{
    for (int32_t k = 0; k < q; k++, twiddles += 2) {
        const cortado_twiddle_t u = cortado_twiddle(twiddles[0]), v = cortado_twiddle(twiddles[1]);
        cortado_complex_t *p = z + k;
        for (int32_t n = count; n > 0; n--, p += 3 * q) {
            cortado_butterfly3(p, q, cortado_half(p[0]), cortado_turned(p[q], u), cortado_turned(p[2 * q], v));
        }
    }
}

static void stage5(cortado_complex_t *z, const int32_t *twiddles, int32_t q, int32_t count)
{
    for (int32_t k = 0; k < q; k++, twiddles += 4) {
        cortado_complex_t *p = z + k;
        for (int32_t n = count; n > 0; n--, p += 5 * q) {
            const cortado_complex_t legs[4] = {cortado_turned(p[q], cortado_twiddle(twiddles[0])),
                                               cortado_turned(p[2 * q], cortado_twiddle(twiddles[1])),
                                               cortado_turned(p[3 * q], cortado_twiddle(twiddles[2])),
                                               cortado_turned(p[4 * q], cortado_twiddle(twiddles[3]))};
            cortado_butterfly5(p, q, cortado_half(p[0]), legs);
        }
    }
}

static void later_stages(const cortado_spectrum_t *L, bin_t *bins)
{
    const int32_t *twiddles = L->twiddles;
    for (int32_t i = 1, q = L->radix[0], radix; i < L->stages; i++, twiddles += q * (radix - 1), q *= radix) {
        radix = L->radix[i];
        const int32_t count = L->pairs / (q * radix);
        if (radix == 4) {
            stage4(&bins->z, twiddles, q, count);
        } else if (radix == 2) {
            stage2(&bins->z, twiddles, q, count);
        } else if (radix == 3) {
            stage3(&bins->z, twiddles, q, count);
        } else {
            stage5(&bins->z, twiddles, q, count);
        }
    }
}

static inline void put_power(bin_t *bin, int32_t re, int32_t im)
{
#if CORTADO_SMALL_CORE
    /* (high^2) * 2^32 + (high * low) * 2^17 + low^2 of both, with the carries. */
    const uint32_t a = (uint32_t)(re < 0 ? -re : re), b = (uint32_t)(im < 0 ? -im : im);
    const uint32_t ah = a >> 16, al = a & 0xFFFF, bh = b >> 16, bl = b & 0xFFFF;
    const uint32_t middle = ah * al + bh * bl, other = bl * bl, shifted = middle << 17;
    uint32_t low = al * al + other, high = ah * ah + bh * bh + (low < other);
    low += shifted;
    high += (low < shifted) + (middle >> 15);
    bin->word[0] = low;
    bin->word[1] = high;
#else
    const uint64_t power = (uint64_t)((int64_t)re * re) + (uint64_t)((int64_t)im * im);
    bin->word[0] = (uint32_t)power;
    bin->word[1] = (uint32_t)(power >> 32);
#endif
}

/* 2 * sqrt(re^2 + im^2): the parts with 15 bits, and a table over the upper bits of their sum of squares. */
static inline void put_magnitude(const cortado_spectrum_t *L, bin_t *bin, int32_t re, int32_t im)
{
    const uint32_t size = (uint32_t)((re ^ (re >> 31)) | (im ^ (im >> 31)));
    const int32_t over = size == 0 ? 0 : 17 - (int32_t)LEADING_ZEROS(size), right = cortado_max(over, 0);
    const int32_t a = re >> right, b = im >> right;
    const uint32_t squares = (uint32_t)(a * a) + (uint32_t)(b * b);
    uint32_t root = 0;
    if (squares != 0) {
        const int32_t left = (int32_t)LEADING_ZEROS(squares) & ~1;
        const uint32_t mantissa = squares << left;
        const uint16_t *t = (const uint16_t *)(const void *)L->roots + (mantissa >> 24) - 64;
        const uint32_t between = ((uint32_t)(t[1] - t[0]) * ((mantissa >> 8) & 0xFFFF)) >> 16;
        root = ((t[0] + between) << 16) >> (15 + left / 2 - right);
    }
    bin->word[0] = root;
}

#if CORTADO_SMALL_CORE
#define PUT static CORTADO_ONCE void /* copies of it would be long */
#else
#define PUT static inline void
#endif

PUT put(const cortado_spectrum_t *L, bin_t *bin, int32_t re, int32_t im, int32_t power)
{
    if (power == 2) {
        put_power(bin, re, im);
    } else {
        put_magnitude(L, bin, re, im);
    }
}

/* From the spectrum of pairs to that of the reals: bins k and M - k together. Of the middle bin there is one form. */
static inline void split(const cortado_spectrum_t *L, bin_t *bins, int32_t power)
{
    const int32_t last = cortado_min(L->pairs / 2 + 1, L->bins), all = L->bins;
    const int32_t *turns = L->turns;
    bin_t *other = bins + L->pairs;
    bins[L->pairs] = bins[0];
    for (int32_t k = 0; k < last; k++, other--) {
        const cortado_complex_t a = bins[k].z, b = other->z;
        const cortado_complex_t odd =
            cortado_turned(cortado_complex(a.im + b.im, b.re - a.re), cortado_twiddle(*turns++));
        const cortado_complex_t even = cortado_half(cortado_complex(a.re + b.re, a.im - b.im));
        put(L, &bins[k], even.re - odd.re, even.im - odd.im, power);
        if (other < bins + all && other > bins + k) {
            put(L, other, even.re + odd.re, even.im + odd.im, power);
        }
    }
}

static inline uint64_t power_sum(const bin_t *bin, const uint16_t *w, int32_t n)
{
#if CORTADO_SMALL_CORE
    /* Products of halves, each in a sum of 32 bits whose carries are counted. */
    uint32_t a = 0, b = 0, c = 0, d = 0, a_carry = 0, b_carry = 0, c_carry = 0;
    for (; n > 0; n--, bin++) {
        const uint32_t v = *w++, low = bin->word[0], high = bin->word[1];
        uint32_t t = (low & 0xFFFF) * v;
        a += t;
        a_carry += a < t;
        t = (low >> 16) * v;
        b += t;
        b_carry += b < t;
        t = (high & 0xFFFF) * v;
        c += t;
        c_carry += c < t;
        d += (high >> 16) * v;
    }
    return (((uint64_t)a_carry << 32 | a) >> 16) + ((uint64_t)b_carry << 32 | b) +
           (((uint64_t)c_carry << 32 | c) << 16) + ((uint64_t)d << 32);
#else
    uint64_t low = 0, high = 0;
    for (; n > 0; n--, bin++) {
        const uint32_t v = *w++;
        low += (uint64_t)bin->word[0] * v;
        high += (uint64_t)bin->word[1] * v;
    }
    return (high << 16) + (low >> 16);
#endif
}

static inline uint64_t magnitude_sum(const bin_t *bin, const uint16_t *w, int32_t n)
{
#if CORTADO_SMALL_CORE
    uint32_t a = 0, b = 0, a_carry = 0, b_carry = 0;
    for (; n > 0; n--, bin++) {
        const uint32_t v = *w++, size = bin->word[0];
        uint32_t t = (size & 0xFFFF) * v;
        a += t;
        a_carry += a < t;
        t = (size >> 16) * v;
        b += t;
        b_carry += b < t;
    }
    return ((uint64_t)a_carry << 32 | a) + (((uint64_t)b_carry << 32 | b) << 16);
#else
    uint64_t sum = 0;
    for (; n > 0; n--, bin++) {
        sum += (uint64_t)bin->word[0] * *w++;
    }
    return sum;
#endif
}

/* log2 of a number from 1, with 16 fractional bits. */
static int32_t log2_of(const cortado_spectrum_t *L, uint64_t v)
{
    uint32_t high = (uint32_t)(v >> 32), low = (uint32_t)v;
    int32_t n = 63;
    if (high == 0) {
        high = low;
        low = 0;
        n = 31;
    }
    const int32_t zeros = (int32_t)LEADING_ZEROS(high);
    const uint32_t mantissa = zeros > 0 ? high << zeros | low >> (32 - zeros) : high;
    const uint16_t *t = (const uint16_t *)(const void *)L->logarithms + ((mantissa >> 24) & 127);
    const uint32_t between = ((uint32_t)(uint16_t)(t[1] - t[0]) * ((mantissa >> 8) & 0xFFFF)) >> 16;
    return (int32_t)((uint32_t)(n - zeros) << 16) + t[0] + (int32_t)between;
}

/* acc, or its root, times the layer's factor and 2^-right. */
static int32_t scaled(const cortado_spectrum_t *L, uint64_t acc, int32_t right)
{
    int32_t left;
    uint64_t v;
    if (L->curve == 2) {
        const uint64_t wide = cortado_normalized(acc << (right & 1), &left);
        v = (uint64_t)cortado_root(wide) * (uint32_t)L->out_multiplier;
        right = 31 + (left + right + (right & 1)) / 2 - L->out_shift;
    } else {
        v = (cortado_normalized(acc, &left) >> 31) * (uint32_t)L->out_multiplier;
        right += left - L->out_shift;
    }
    if (right > 62) {
        v = 0;
    } else if (right > 0) {
        v = (v + ((uint64_t)1 << (right - 1))) >> right;
    }
    return v > 0x10000 ? 0x10000 : (int32_t)v;
}

static inline uint64_t band(const bin_t *from, const uint16_t *weights, int32_t count, int32_t power)
{
    return power == 2 ? power_sum(from, weights, count) : magnitude_sum(from, weights, count);
}

static int32_t code_of(const cortado_spectrum_t *L, uint64_t acc, int32_t right)
{
    if (L->curve != 0) {
        return scaled(L, acc, right);
    }
    const int32_t log = log2_of(L, acc == 0 ? 1 : acc) - cortado_shl(L->base + right, 16) + L->offset;
    return cortado_requant(cortado_shl(log, 7), L->out_multiplier, L->out_shift);
}

/* All bands; the power is known where this is compiled. */
static inline void bands(const cortado_spectrum_t *L, const bin_t *bins, int8_t *out, int32_t shift, int32_t power)
{
    const uint16_t *weights = (const uint16_t *)(const void *)L->weights;
    const uint64_t whole = (uint64_t)(uint32_t)L->floor_high << 31 | (uint32_t)L->floor_low;
    const uint64_t floor = whole >> (power * (L->headroom - shift));
    for (int32_t b = 0; b < L->bands; b++) {
        const int32_t count = L->counts[b];
        uint64_t acc = band(bins + L->starts[b], weights, count, power);
        weights += count;
        if (!L->clamped) {
            acc += floor;
        } else if (acc < floor) {
            acc = floor;
        }
        const int32_t code = cortado_clamp(code_of(L, acc, power * shift) + L->out_zero, L->act_min, L->act_max);
        if (L->wide != 0) {
            ((int16_t *)(void *)out)[b] = (int16_t)code;
        } else {
            out[b] = (int8_t)code;
        }
    }
}

void cortado_spectrum_s16(const cortado_spectrum_t *L, const int8_t *const rows[], int8_t *out, void *scratch)
{
    bin_t *bins = scratch;
    int16_t *samples = (int16_t *)(void *)(bins + L->pairs + 1);
    const uint32_t bits = gather(L, rows, samples);
    const int32_t shift = cortado_min(bits == 0 ? 15 : (int32_t)LEADING_ZEROS(bits) - 17, L->headroom);
    const source_t source = {samples, L->window, (L->window_length + 1) / 2, shift};
    first_stage(L, &source, bins);
    later_stages(L, bins);
    if (L->power == 2) {
        split(L, bins, 2);
        bands(L, bins, out, shift, 2);
    } else {
        split(L, bins, 1);
        bands(L, bins, out, shift, 1);
    }
}
