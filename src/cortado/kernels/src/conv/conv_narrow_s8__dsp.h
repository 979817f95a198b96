/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of convolution and linear layers with 4-bit weights and DSP instructions. Internal. Pixels are laid
 * out as conv_window_s8__dsp.h says; the streams are described in conv_narrow_s8__dsp.S and conv_runs_s8__dsp.S.
 */
#ifndef CONV_NARROW_S8__DSP_H
#define CONV_NARROW_S8__DSP_H

#include "conv_tile_s8__scalar_dsp.h"

/* Products of one run of the inner loop, for which the sums of every channel fit their places in a word. */
#define NARROW_SPAN 512

#if !defined(__ASSEMBLER__)
#include "cortado_narrow.h"

/* The first two of `pixels`, or the only one. */
void cortado_conv_narrow_s8__dsp(const cortado_conv_tile_t *T, const void *x, int32_t pixels, int8_t *out);
/* The same with a factor for each run; depth is a multiple of 8, and behind x is room for two words for each run. */
void cortado_conv_runs_s8__dsp(const cortado_conv_tile_t *T, void *x, int32_t pixels, int8_t *out);

/* Products up to a multiple of 8: those behind a multiple of 4 are zeros. Returns how many they are. */
static inline int32_t cortado_narrow_filled(int32_t *x, int32_t size)
{
    const int32_t end = (size + 7) & ~7;
    for (int32_t i = cortado_round4(size); i < end; i++) {
        x[i] = 0;
        CORTADO_STAY_A_LOOP;
    }
    return end;
}
#endif

#endif /* CONV_NARROW_S8__DSP_H */
