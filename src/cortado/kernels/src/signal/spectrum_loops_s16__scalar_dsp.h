/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of spectra on cores without vector instructions. Internal.
 *
 * The first stage of radix 4 reads the window from a stream, for each butterfly
 *
 *   | window 2 x 4 of leg 0 | of leg 2 | of leg 1 | of leg 3 | 32 * place 4 |
 *
 * with the legs that hold samples: 2 and 3, or 3 and 4 of them. Of other radices, and of windows that fill less than
 * two legs, the window is as it is, and the layer has `places`.
 */
#ifndef SPECTRUM_LOOPS_S16__SCALAR_DSP_H
#define SPECTRUM_LOOPS_S16__SCALAR_DSP_H

#include "cortado_spectrum_frame.h"

/* Samples, two for each butterfly, up to `end`; those of the next leg are `leg` bytes ahead. */
typedef struct {
    const int16_t *from, *end;
    int32_t leg;
    int32_t factor; /* 2^shift; without DSP instructions 16 + shift */
} cortado_spectrum_samples_t;

/* The assembly reads all four at once. */
CORTADO_AT(cortado_spectrum_samples_t, from, 0);
CORTADO_AT(cortado_spectrum_samples_t, end, 4);
CORTADO_AT(cortado_spectrum_samples_t, leg, 8);
CORTADO_AT(cortado_spectrum_samples_t, factor, 12);

void CORTADO_ISA(cortado_spectrum_first2_s16)(const cortado_spectrum_samples_t *S, const int32_t *stream,
                                            cortado_bin_t *z);
void CORTADO_ISA(cortado_spectrum_first3_s16)(const cortado_spectrum_samples_t *S, const int32_t *stream,
                                            cortado_bin_t *z);
void CORTADO_ISA(cortado_spectrum_first4_s16)(const cortado_spectrum_samples_t *S, const int32_t *stream,
                                            cortado_bin_t *z);

/* A stage of radix 4: `count` groups of four legs of q numbers. */
void CORTADO_ISA(cortado_spectrum_fours_s16)(cortado_complex_t *z, const int32_t *twiddles, int32_t q, int32_t count);

/* The bins from the outermost two, 0 and the number of pairs, to the middle, as powers or magnitudes. */
void CORTADO_ISA(cortado_spectrum_powers_s16)(cortado_bin_t *first, cortado_bin_t *last, const int32_t *turns);
void CORTADO_ISA(cortado_spectrum_sizes_s16)(cortado_bin_t *first, cortado_bin_t *last, const int32_t *turns,
                                             const int16_t *roots);

#endif /* SPECTRUM_LOOPS_S16__SCALAR_DSP_H */
