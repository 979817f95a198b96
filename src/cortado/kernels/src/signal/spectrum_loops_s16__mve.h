/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of spectra with vector instructions. Internal.
 *
 * Real parts and imaginary parts lie in arrays of their own, of one word more than there are pairs; behind the split,
 * the lower and the upper words of powers, or magnitudes in the first. Numbers of butterflies are multiples of 4 in
 * every stage but the first. Tables, of four butterflies each:
 *
 *   window     | even samples of leg 0 4 x 4 | odd ones | leg 2 | leg 1 | leg 3 | 16 * place 4 x 4 |
 *              with the legs that hold samples, 2 and 3 or 3 and 4 of them; behind the last butterfly with more legs
 *              and behind the last, zeros make four whole
 *   twiddles   | cosines of leg 1 4 x 2 | sines | leg 2 | ... |
 *   turns      | cosines 4 x 2 | sines |
 *   weights    of each band, and zeros up to a multiple of 4
 */
#ifndef SPECTRUM_LOOPS_S16__MVE_H
#define SPECTRUM_LOOPS_S16__MVE_H

/* Members of cortado_spectrum_planes_t, for the assembly, which reads re with to_im; cortado_spectrum_bands_t is read
 * at once. */
#define PLANES_SAMPLES 0
#define PLANES_LEG 4
#define PLANES_LEFT 8
#define PLANES_RE 12
#define PLANES_TO_IM 16
#define BANDS_LOWER 0
#define BANDS_UPPER 4
#define BANDS_STARTS 8
#define BANDS_COUNTS 12

#if !defined(__ASSEMBLER__)
#include "cortado_spectrum.h"

/* Samples, two for each butterfly; those of the next leg are `leg` bytes ahead. */
typedef struct {
    const int16_t *samples;
    int32_t leg;
    int32_t left; /* 16 + shift */
    int32_t *re;
    int32_t to_im; /* bytes from there to the imaginary parts */
} cortado_spectrum_planes_t;

typedef struct {
    const int32_t *lower, *upper;
    const int16_t *starts, *counts;
} cortado_spectrum_bands_t;

CORTADO_AT(cortado_spectrum_planes_t, samples, PLANES_SAMPLES);
CORTADO_AT(cortado_spectrum_planes_t, leg, PLANES_LEG);
CORTADO_AT(cortado_spectrum_planes_t, left, PLANES_LEFT);
CORTADO_AT(cortado_spectrum_planes_t, re, PLANES_RE);
CORTADO_AT(cortado_spectrum_planes_t, to_im, PLANES_TO_IM);
CORTADO_AT(cortado_spectrum_bands_t, lower, BANDS_LOWER);
CORTADO_AT(cortado_spectrum_bands_t, upper, BANDS_UPPER);
CORTADO_AT(cortado_spectrum_bands_t, starts, BANDS_STARTS);
CORTADO_AT(cortado_spectrum_bands_t, counts, BANDS_COUNTS);

/* Copies n samples; range: the largest and the least until now. */
void cortado_spectrum_samples_s16__mve(const int16_t *from, int16_t *to, int32_t n, int32_t *range);

/* `count` butterflies of radix 4 without twiddles, each to its place, of so many legs that hold samples. */
void cortado_spectrum_first2_s16__mve(const cortado_spectrum_planes_t *S, const int32_t *stream, int32_t count);
void cortado_spectrum_first3_s16__mve(const cortado_spectrum_planes_t *S, const int32_t *stream, int32_t count);
void cortado_spectrum_first4_s16__mve(const cortado_spectrum_planes_t *S, const int32_t *stream, int32_t count);

/* A stage of radix 4 or 5: `count` groups of so many legs of q numbers. */
void cortado_spectrum_fours_s16__mve(int32_t *re, int32_t *im, const int16_t *twiddles, int32_t q, int32_t count);
void cortado_spectrum_fives_s16__mve(int32_t *re, int32_t *im, const int16_t *twiddles, int32_t q, int32_t count);

/* All bins as powers or magnitudes. */
void cortado_spectrum_powers_s16__mve(int32_t *re, int32_t *im, const int16_t *turns, int32_t pairs);
void cortado_spectrum_sizes_s16__mve(int32_t *re, int32_t *im, const int16_t *turns, int32_t pairs,
                                     const int16_t *roots);

/* Up to four bands: the lower words of their sums, then, from the fourth word on, the upper ones. Gives the weights
 * behind. */
const int16_t *cortado_spectrum_power_sums_s16__mve(const cortado_spectrum_bands_t *B, const int16_t *weights,
                                                    uint32_t *sums, int32_t bands);
const int16_t *cortado_spectrum_size_sums_s16__mve(const cortado_spectrum_bands_t *B, const int16_t *weights,
                                                   uint32_t *sums, int32_t bands);

#endif
#endif /* SPECTRUM_LOOPS_S16__MVE_H */
