/* SPDX-License-Identifier: Apache-2.0
 *
 * A frame of samples as its spectrum in bands, see spectrum_s16.c, with vector instructions: see
 * spectrum_loops_s16__mve.h. The number of pairs is a multiple of 4.
 *
 * Tile: 1 frame. Scratch: 8 * (pairs + 1) bytes, and the window's samples, of short ones as many as half the points.
 */
#include "spectrum_loops_s16__mve.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

/* The window's samples one after the other; gives by how many bits they can be shifted left. */
static int32_t gather(const cortado_spectrum_t *L, const int8_t *const rows[], int16_t *samples)
{
    int32_t at = L->skip, left = L->window_length, range[2] = {0, -1};
    for (; at >= L->block; at -= L->block) {
        rows++;
    }
    for (; left > 0; at = 0) {
        const int32_t n = cortado_min(L->block - at, left);
        cortado_spectrum_samples_s16__mve((const int16_t *)(const void *)*rows++ + at, samples, n, range);
        samples += n;
        left -= n;
    }
    const uint32_t bits = (uint32_t)(range[0] | ~range[1]);
    return cortado_min(bits == 0 ? 15 : cortado_leading_zeros(bits) - 17, L->headroom);
}

/* Four samples less a part of those before them. */
static inline int32x4_t emphasized(const int16_t *samples, int32_t part, mve_pred16_t some)
{
    return vmlaq_n_s32(vshlq_n_s32(vldrhq_z_s32(samples, some), 15), vldrhq_z_s32(samples - 1, some), -part);
}

/* Makes each sample of the window itself less a part of the one before it, halved, and shifted left as far as all of
 * them can be; gives by how many bits. In front of the samples is room for one more. */
static int32_t emphasize(const cortado_spectrum_t *L, const int8_t *const rows[], int16_t *samples)
{
    const int32_t part = L->emphasis, fours = 4 * ((L->window_length - 1) / 4);
    int32_t high = 0, low = -1;
    samples[-1] = cortado_sample_before(L, rows);
    mve_pred16_t some = vctp32q((uint32_t)(L->window_length - fours));
    for (int32_t at = fours; at >= 0; at -= 4) {
        const int32x4_t v = emphasized(samples + at, part, some);
        high = vmaxvq_p_s32(high, v, some);
        low = vminvq_p_s32(low, v, some);
        some = 0xFFFF;
    }
    const int32_t shift = cortado_emphasis_shift(L, (uint32_t)(high | ~low)), right = shift - 15;
    some = vctp32q((uint32_t)(L->window_length - fours));
    for (int32_t at = fours; at >= 0; at -= 4) {
        int32x4_t v = vshlq_r_s32(emphasized(samples + at, part, some), right);
        v = vshrq_n_s32(vaddq_n_s32(v, 1), 1);
        vstrhq_p_s32(samples + at, vminq_s32(v, vdupq_n_s32(32767)), some);
        some = 0xFFFF;
    }
    return shift;
}

/* `count` butterflies of so many legs that hold samples; gives the stream behind them. */
static const int32_t *fours(cortado_spectrum_planes_t *S, const int32_t *stream, int32_t count, int32_t legs)
{
    if (count > 0) {
        if (legs == 4) {
            cortado_spectrum_first4_s16__mve(S, stream, count);
        } else if (legs == 3) {
            cortado_spectrum_first3_s16__mve(S, stream, count);
        } else {
            cortado_spectrum_first2_s16__mve(S, stream, count);
        }
        S->samples += 2 * count;
    }
    return stream + (8 * legs + 4) * ((count + 3) / 4);
}

static void first_stage(const cortado_spectrum_t *L, cortado_spectrum_planes_t *S)
{
    const int32_t q = L->pairs / 4, pairs = (L->window_length + 1) / 2, legs = pairs >= 3 * q ? 3 : 2;
    const int32_t more = cortado_max(pairs - legs * q, 0);
    const int32_t *stream = fours(S, L->window, more, legs + 1);
    (void)fours(S, stream, q - more, legs);
}

/* ---- the later stages ------------------------------------------------------------------------------------------ */

typedef struct {
    int32x4_t re, im;
} four_t;

static inline four_t turned(const int32_t *re, const int32_t *im, const int16_t *twiddles)
{
    const int32x4_t r = vld1q_s32(re), i = vld1q_s32(im);
    const int32x4_t c = vshlq_n_s32(vldrhq_s32(twiddles), 16), s = vshlq_n_s32(vldrhq_s32(twiddles + 4), 16);
    const four_t v = {vaddq_s32(vmulhq_s32(r, c), vmulhq_s32(i, s)), vsubq_s32(vmulhq_s32(i, c), vmulhq_s32(r, s))};
    return v;
}

/* cortado_mulw */
static inline int32x4_t part(int32x4_t a, int32_t w) { return vqdmulhq_n_s32(a, cortado_shl(w, 15)); }

static inline int32x4_t half(const int32_t *p) { return vshrq_n_s32(vld1q_s32(p), 1); }

static inline void butterfly2(int32_t *re, int32_t *im, const int16_t *w, int32_t q)
{
    const four_t b = turned(re + q, im + q, w);
    const int32x4_t r = half(re), i = half(im);
    vst1q_s32(re, vsubq_s32(r, b.re));
    vst1q_s32(re + q, vaddq_s32(r, b.re));
    vst1q_s32(im, vsubq_s32(i, b.im));
    vst1q_s32(im + q, vaddq_s32(i, b.im));
}

/* A sum and a difference of legs to their places: first - sum, middle - side, middle + side. */
static inline void put3(int32_t *p, int32_t q, int32x4_t sum, int32x4_t side)
{
    const int32x4_t first = half(p), middle = vaddq_s32(first, vshrq_n_s32(sum, 1));
    vst1q_s32(p, vsubq_s32(first, sum));
    vst1q_s32(p + q, vaddq_s32(middle, side));
    vst1q_s32(p + 2 * q, vsubq_s32(middle, side));
}

static inline void butterfly3(int32_t *re, int32_t *im, const int16_t *w, int32_t q)
{
    const four_t b = turned(re + q, im + q, w), c = turned(re + 2 * q, im + 2 * q, w + 8);
    const int32x4_t r = vsubq_s32(b.re, c.re), i = vsubq_s32(b.im, c.im);
    put3(re, q, vaddq_s32(b.re, c.re), vnegq_s32(vaddq_s32(i, part(i, -8780))));
    put3(im, q, vaddq_s32(b.im, c.im), vaddq_s32(r, part(r, -8780)));
}

/* A stage of radix 2 or 3. */
static void other_stage(int32_t *re, int32_t *im, const int16_t *twiddles, int32_t q, int32_t count, int32_t radix)
{
    for (; count > 0; count--) {
        const int16_t *w = twiddles;
        for (int32_t k = q; k > 0; k -= 4) {
            if (radix == 2) {
                butterfly2(re, im, w, q);
            } else {
                butterfly3(re, im, w, q);
            }
            w += 8 * (radix - 1);
            re += 4;
            im += 4;
        }
        re += q * (radix - 1);
        im += q * (radix - 1);
    }
}

static void later_stages(const cortado_spectrum_t *L, int32_t *re, int32_t *im)
{
    const int16_t *twiddles = (const int16_t *)(const void *)L->twiddles;
    for (int32_t i = 1, q = 4, radix; i < L->stages; i++, twiddles += 2 * q * (radix - 1), q *= radix) {
        radix = L->radix[i];
        const int32_t count = cortado_groups(L, i);
        if (radix == 4) {
            cortado_spectrum_fours_s16__mve(re, im, twiddles, q, count);
        } else if (radix == 5) {
            cortado_spectrum_fives_s16__mve(re, im, twiddles, q, count);
        } else {
            other_stage(re, im, twiddles, q, count, radix);
        }
    }
}

/* From the spectrum of pairs to that of the reals. */
static void split(const cortado_spectrum_t *L, int32_t *re, int32_t *im)
{
    const int16_t *turns = (const int16_t *)(const void *)L->turns;
    re[L->pairs] = re[0];
    im[L->pairs] = im[0];
    if (L->power == 2) {
        cortado_spectrum_powers_s16__mve(re, im, turns, L->pairs);
    } else {
        cortado_spectrum_sizes_s16__mve(re, im, turns, L->pairs, L->roots);
    }
}

/* ---- bands ----------------------------------------------------------------------------------------------------- */

/* log2 of four numbers, with 16 fractional bits; of 0 as of 1. */
static inline int32x4_t log2_of(const uint16_t *table, uint32x4_t low, uint32x4_t high)
{
    const mve_pred16_t none = vcmpeqq_n_u32(high, 0);
    const int32x4_t top = vpselq_s32(vdupq_n_s32(31), vdupq_n_s32(63), none);
    high = vmaxq_u32(vpselq_u32(low, high, none), vdupq_n_u32(1));
    low = vpselq_u32(vdupq_n_u32(0), low, none);
    const int32x4_t zeros = vreinterpretq_s32_u32(vclzq_u32(high));
    const uint32x4_t mantissa = vorrq_u32(vshlq_u32(high, zeros), vshlq_u32(low, vsubq_n_s32(zeros, 32)));
    const uint32x4_t place = vshrq_n_u32(vshlq_n_u32(mantissa, 1), 25);
    const uint32x4_t from = vldrhq_gather_shifted_offset_u32(table, place);
    const uint32x4_t to = vldrhq_gather_shifted_offset_u32(table + 1, place);
    const uint32x4_t rest = vbicq_n_u32(vshlq_n_u32(mantissa, 8), 0xFF00);
    const uint32x4_t step = vmovlbq_u16(vreinterpretq_u16_u32(vsubq_u32(to, from)));
    const uint32x4_t between = vmulhq_u32(step, rest);
    const int32x4_t line = vreinterpretq_s32_u32(vaddq_u32(from, between));
    return vaddq_s32(vshlq_n_s32(vsubq_s32(top, zeros), 16), line);
}

/* cortado_requant */
static inline int32x4_t requant(int32x4_t v, int32_t multiplier, int32_t shift)
{
    if (shift >= 0) {
        return vqrdmulhq_n_s32(vshlq_r_s32(v, shift), multiplier);
    }
    v = vqrdmulhq_n_s32(v, multiplier);
    return vrshlq_n_s32(vaddq_s32(v, vshrq_n_s32(v, 31)), shift);
}

/* The codes of logarithms of up to four bands. */
static inline void put_logarithms(const cortado_spectrum_t *L, int8_t *out, const uint32_t *sums, uint64_t floor,
                                  int32_t right, int32_t bands)
{
    uint32x4_t low = vld1q_u32(sums), high = vld1q_u32(sums + 4);
    if (!L->clamped) {
        const uint32_t least = (uint32_t)floor;
        low = vaddq_n_u32(low, least);
        high = vaddq_n_u32(high, (uint32_t)(floor >> 32));
        high = vaddq_m_n_u32(high, high, 1, vcmphiq_u32(vdupq_n_u32(least), low));
    }
    const int32_t more = L->offset - cortado_shl(right, 16);
    const int32x4_t log = vaddq_n_s32(log2_of((const uint16_t *)(const void *)L->logarithms, low, high), more);
    int32x4_t code = requant(vshlq_n_s32(log, 7), L->out_multiplier, L->out_shift);
    code = vaddq_n_s32(code, L->out_zero);
    code = vminq_s32(vmaxq_s32(code, vdupq_n_s32(L->act_min)), vdupq_n_s32(L->act_max));
    const mve_pred16_t some = vctp32q((uint32_t)bands);
    if (L->wide != 0) {
        vstrhq_p_s32((int16_t *)(void *)out, code, some);
    } else {
        vstrbq_p_s32(out, code, some);
    }
}

static void put_bands(const cortado_spectrum_t *L, const int32_t *re, const int32_t *im, int8_t *out, int32_t shift)
{
    cortado_spectrum_bands_t B = {re, im, L->starts, L->counts};
    const int32_t right = L->power * shift, bytes = 1 + L->wide;
    const int16_t *weights = L->weights;
    const uint64_t floor = cortado_floor(L, shift);
    uint32_t sums[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int32_t left = L->bands; left > 0; left -= 4, out += 4 * bytes) {
        const int32_t bands = cortado_min(left, 4);
        weights = (L->power == 2 ? cortado_spectrum_power_sums_s16__mve
                                 : cortado_spectrum_size_sums_s16__mve)(&B, weights, sums, bands);
        B.starts += 4;
        B.counts += 4;
        if (L->curve == 0 && !L->clamped) {
            put_logarithms(L, out, sums, floor, right, bands);
        } else {
            int8_t *to = out;
            for (int32_t b = 0; b < bands; b++) {
                to = cortado_put_band(L, to, (uint64_t)sums[4 + b] << 32 | sums[b], floor, right);
            }
        }
    }
}

void cortado_spectrum_s16__mve(const cortado_spectrum_t *L, const int8_t *const rows[], int8_t *out, void *scratch)
{
    int32_t *re = scratch, *im = re + L->pairs + 1;
    int16_t *samples = (int16_t *)(void *)(im + L->pairs + 1);
    int32_t shift = gather(L, rows, samples);
    cortado_spectrum_planes_t planes = {samples, L->pairs, 16 + shift, re, 4 * (L->pairs + 1)};
    if (L->emphasis != 0) {
        planes.left = 16;
        shift = emphasize(L, rows, samples);
    }
    first_stage(L, &planes);
    later_stages(L, re, im);
    split(L, re, im);
    put_bands(L, re, im, out, shift);
}
#else
typedef int cortado_spectrum_s16_needs_mve; /* an empty translation unit is not C */
#endif
