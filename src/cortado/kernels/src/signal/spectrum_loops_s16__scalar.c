/* SPDX-License-Identifier: Apache-2.0
 *
 * spectrum_loops_s16__scalar_dsp.S in C: for small cores, and for machines that it has no code for.
 *
 * Tile: 1 butterfly. Scratch: none of their own.
 */
#include "spectrum_loops_s16__scalar_dsp.h"

#if CORTADO_SMALL_CORE || !defined(__thumb__)

/* Butterflies of radix 4, of which so many legs hold samples. */
static inline void first(const cortado_spectrum_samples_t *S, const int32_t *stream, cortado_bin_t *z, int32_t legs)
{
    const int32_t shift = S->factor - 16, leg = S->leg / 2;
    const cortado_complex_t none = cortado_complex(0, 0);
    for (const int16_t *v = S->from; v != S->end; v += 2) {
        const cortado_complex_t a = cortado_pair(v, stream, shift);
        const cortado_complex_t c = legs > 2 ? cortado_pair(v + 2 * leg, stream + 2, shift) : none;
        stream += legs > 2 ? 4 : 2;
        const cortado_complex_t b = cortado_pair(v + leg, stream, shift);
        const cortado_complex_t d = legs > 3 ? cortado_pair(v + 3 * leg, stream + 2, shift) : none;
        stream += legs > 3 ? 4 : 2;
        const cortado_complex_t even = cortado_plus(a, c), odd = cortado_minus(a, c);
        const cortado_complex_t sum = cortado_plus(b, d), side = cortado_minus(b, d);
        cortado_bin_t *p = (cortado_bin_t *)(void *)((int8_t *)z + *stream++);
        p[0].z = cortado_plus(even, sum);
        p[1].z = cortado_minus_j(odd, side);
        p[2].z = cortado_minus(even, sum);
        p[3].z = cortado_plus_j(odd, side);
    }
}

void CORTADO_ISA(cortado_spectrum_first2_s16)(const cortado_spectrum_samples_t *S, const int32_t *stream,
                                            cortado_bin_t *z)
{
    first(S, stream, z, 2);
}

void CORTADO_ISA(cortado_spectrum_first3_s16)(const cortado_spectrum_samples_t *S, const int32_t *stream,
                                            cortado_bin_t *z)
{
    first(S, stream, z, 3);
}

void CORTADO_ISA(cortado_spectrum_first4_s16)(const cortado_spectrum_samples_t *S, const int32_t *stream,
                                            cortado_bin_t *z)
{
    first(S, stream, z, 4);
}

void CORTADO_ISA(cortado_spectrum_fours_s16)(cortado_complex_t *z, const int32_t *twiddles, int32_t q, int32_t count)
{
    cortado_complex_t *o = z; /* of twiddles of 1, which are -32768: half of the negative */
    for (int32_t n = count; n > 0; n--, o += 4 * q) {
        const cortado_complex_t b = o[q], c = o[2 * q], d = o[3 * q];
        cortado_butterfly4(o, q, cortado_half(o[0]), cortado_half(cortado_negative(b)),
                           cortado_half(cortado_negative(c)), cortado_half(cortado_negative(d)));
    }
    for (int32_t k = 1; k < q; k++) {
        twiddles += 3;
        const cortado_twiddle_t u = cortado_twiddle(twiddles[0]), v = cortado_twiddle(twiddles[1]),
                                w = cortado_twiddle(twiddles[2]);
        cortado_complex_t *p = z + k;
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
    }
}

/* Bins k and M - k as complex numbers in their places. */
static inline void two_bins(cortado_bin_t *first, cortado_bin_t *last, int32_t turn)
{
    const cortado_complex_t a = first->z, b = last->z;
    const cortado_complex_t odd = cortado_turned(cortado_complex(a.im + b.im, b.re - a.re), cortado_twiddle(turn));
    const cortado_complex_t even = cortado_half(cortado_complex(a.re + b.re, a.im - b.im));
    last->z = cortado_plus(even, odd);
    first->z = cortado_minus(even, odd); /* of the middle one this form is left */
}

static CORTADO_ONCE void put_power(cortado_bin_t *bin) { cortado_put_power(bin, bin->z.re, bin->z.im); }

void CORTADO_ISA(cortado_spectrum_powers_s16)(cortado_bin_t *first, cortado_bin_t *last, const int32_t *turns)
{
    for (; first <= last; first++, last--) {
        two_bins(first, last, *turns++);
        put_power(first);
        if (first != last) {
            put_power(last);
        }
    }
}

static CORTADO_ONCE void put_size(const int16_t *roots, cortado_bin_t *bin)
{
    cortado_put_size(roots, bin, bin->z.re, bin->z.im);
}

void CORTADO_ISA(cortado_spectrum_sizes_s16)(cortado_bin_t *first, cortado_bin_t *last, const int32_t *turns,
                                             const int16_t *roots)
{
    for (; first <= last; first++, last--) {
        two_bins(first, last, *turns++);
        put_size(roots, first);
        if (first != last) {
            put_size(roots, last);
        }
    }
}

#else
typedef int cortado_spectrum_loops_are_assembly; /* an empty translation unit is not C */
#endif
