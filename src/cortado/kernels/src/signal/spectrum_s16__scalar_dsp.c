/* SPDX-License-Identifier: Apache-2.0
 *
 * A frame of samples as its spectrum in bands, see spectrum_s16.c, on cores without vector instructions: the loops of
 * spectrum_loops_s16__scalar_dsp.h.
 *
 * Tile: 1 frame. Scratch: 8 * (pairs + 1) bytes, and the window's samples.
 */
#include "spectrum_loops_s16__scalar_dsp.h"

/* `count` butterflies of so many legs that hold samples; gives the stream behind them. */
static const int32_t *fours(cortado_spectrum_samples_t *S, const int32_t *stream, cortado_bin_t *bins, int32_t count,
                            int32_t legs)
{
    if (count > 0) {
        S->end = S->from + 2 * count;
        if (legs == 4) {
            CORTADO_ISA(cortado_spectrum_first4_s16)(S, stream, bins);
        } else if (legs == 3) {
            CORTADO_ISA(cortado_spectrum_first3_s16)(S, stream, bins);
        } else {
            CORTADO_ISA(cortado_spectrum_first2_s16)(S, stream, bins);
        }
        S->from = S->end;
    }
    return stream + (2 * legs + 1) * count;
}

static CORTADO_ONCE void stage(cortado_bin_t *bins, const int32_t *twiddles, int32_t q, int32_t count, int32_t radix)
{
    if (radix == 4) {
        CORTADO_ISA(cortado_spectrum_fours_s16)(&bins->z, twiddles, q, count);
    } else {
        cortado_other_stage(&bins->z, twiddles, q, count, radix);
    }
}

/* Butterflies without twiddles and without a shift, each to its place. */
static void first_stage(const cortado_spectrum_t *L, const cortado_windowed_t *w, cortado_bin_t *bins)
{
    const int32_t q = L->pairs / 4, legs = w->pairs >= 3 * q ? 3 : 2, more = w->pairs - legs * q;
    if (L->places != NULL) {
        cortado_first_numbers(L, w, bins);
        stage(bins, cortado_ones, 1, cortado_groups(L, 0), L->radix[0]);
    } else {
#if defined(__ARM_FEATURE_DSP)
        cortado_spectrum_samples_t S = {w->samples, NULL, 4 * q, 1 << w->shift};
#else
        cortado_spectrum_samples_t S = {w->samples, NULL, 4 * q, 16 + w->shift};
#endif
        const int32_t *stream = fours(&S, L->window, bins, more, legs + 1);
        (void)fours(&S, stream, bins, q - more, legs);
    }
}

static void later_stages(const cortado_spectrum_t *L, cortado_bin_t *bins)
{
    const int32_t *twiddles = L->twiddles;
    for (int32_t i = 1, q = L->radix[0], radix; i < L->stages; i++, twiddles += q * (radix - 1), q *= radix) {
        radix = L->radix[i];
        stage(bins, twiddles, q, cortado_groups(L, i), radix);
    }
}

/* From the spectrum of pairs to that of the reals. */
static void split(const cortado_spectrum_t *L, cortado_bin_t *bins)
{
    bins[L->pairs] = bins[0];
    if (L->power == 2) {
        CORTADO_ISA(cortado_spectrum_powers_s16)(bins, bins + L->pairs, L->turns);
    } else {
        CORTADO_ISA(cortado_spectrum_sizes_s16)(bins, bins + L->pairs, L->turns, L->roots);
    }
}

void CORTADO_ISA(cortado_spectrum_s16)(const cortado_spectrum_t *L, const int8_t *const rows[], int8_t *out,
                                       void *scratch)
{
    cortado_bin_t *bins = scratch;
    const cortado_windowed_t windowed = cortado_gather(L, rows, (int16_t *)(void *)(bins + L->pairs + 1));
    first_stage(L, &windowed, bins);
    later_stages(L, bins);
    split(L, bins);
    cortado_bands(L, bins, out, windowed.exponent);
}
