/* SPDX-License-Identifier: Apache-2.0
 *
 * A frame of samples as its spectrum in bands: window, real FFT, power or magnitude, weighted sums, and their
 * logarithm, their root or themselves as codes. Whatever its level, samples are shifted left as far as they can be.
 *
 * Tile: 1 frame. Scratch: 8 * (pairs + 1) bytes, and the window's samples.
 */
#include "cortado_spectrum_frame.h"

static void stage4(cortado_complex_t *z, const int32_t *twiddles, int32_t q, int32_t count)
{
    for (int32_t k = 0; k < q; k++, twiddles += 3) {
        cortado_complex_t *p = z + k;
        for (int32_t n = count; n > 0; n--, p += 4 * q) {
            const cortado_complex_t b = cortado_turned(p[q], cortado_twiddle(twiddles[0])),
                                    c = cortado_turned(p[2 * q], cortado_twiddle(twiddles[1])),
                                    d = cortado_turned(p[3 * q], cortado_twiddle(twiddles[2]));
            cortado_butterfly4(p, q, cortado_half(p[0]), b, c, d);
        }
    }
}

static CORTADO_ONCE void stage(cortado_bin_t *bins, const int32_t *twiddles, int32_t q, int32_t count, int32_t radix)
{
    if (radix == 4) {
        stage4(&bins->z, twiddles, q, count);
    } else {
        cortado_other_stage(&bins->z, twiddles, q, count, radix);
    }
}

static void transform(const cortado_spectrum_t *L, cortado_bin_t *bins)
{
    const int32_t *twiddles = L->twiddles;
    stage(bins, cortado_ones, 1, cortado_groups(L, 0), L->radix[0]);
    for (int32_t i = 1, q = L->radix[0], radix; i < L->stages; i++, twiddles += q * (radix - 1), q *= radix) {
        radix = L->radix[i];
        stage(bins, twiddles, q, cortado_groups(L, i), radix);
    }
}

/* From the spectrum of pairs to that of the reals: bins k and M - k together. Of the middle bin there is one form. */
static void split(const cortado_spectrum_t *L, cortado_bin_t *bins)
{
    const int32_t last = cortado_min(L->pairs / 2 + 1, L->bins);
    cortado_bin_t *other = bins + L->pairs;
    bins[L->pairs] = bins[0];
    for (int32_t k = 0; k < last; k++, other--) {
        const cortado_complex_t a = bins[k].z, b = other->z;
        const cortado_complex_t odd =
            cortado_turned(cortado_complex(a.im + b.im, b.re - a.re), cortado_twiddle(L->turns[k]));
        const cortado_complex_t even = cortado_half(cortado_complex(a.re + b.re, a.im - b.im));
        cortado_put_bin(L, &bins[k], even.re - odd.re, even.im - odd.im);
        if (other < bins + L->bins && other > bins + k) {
            cortado_put_bin(L, other, even.re + odd.re, even.im + odd.im);
        }
    }
}

void cortado_spectrum_s16(const cortado_spectrum_t *L, const int8_t *const rows[], int8_t *out, void *scratch)
{
    cortado_bin_t *bins = scratch;
    const cortado_windowed_t windowed = cortado_gather(L, rows, (int16_t *)(void *)(bins + L->pairs + 1));
    cortado_first_numbers(L, &windowed, bins);
    transform(L, bins);
    split(L, bins);
    cortado_bands(L, bins, out, windowed.exponent);
}
