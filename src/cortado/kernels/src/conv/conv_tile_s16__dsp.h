/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of convolution of 16-bit codes with 8-bit weights, with DSP instructions: all output channels of two
 * pixels or of one. Internal. The stream is described in conv_tile_s16__dsp.S.
 */
#ifndef CONV_TILE_S16__DSP_H
#define CONV_TILE_S16__DSP_H

/* Members of cortado_wide_tile_t, for the assembly. */
#define TILE_STREAM 0
#define TILE_DEPTH 4 /* the rest is read with it */

#if !defined(__ASSEMBLER__)
#include "cortado.h"
#include "cortado_math.h"

typedef struct {
    const int8_t *stream;
    int32_t depth; /* products per output */
    int32_t channels;
    int32_t stride; /* bytes from pixel to pixel of the output */
    int32_t low, high;
} cortado_wide_tile_t;

CORTADO_AT(cortado_wide_tile_t, stream, TILE_STREAM);
CORTADO_AT(cortado_wide_tile_t, depth, TILE_DEPTH);
CORTADO_AT(cortado_wide_tile_t, channels, TILE_DEPTH + 4);
CORTADO_AT(cortado_wide_tile_t, stride, TILE_DEPTH + 8);
CORTADO_AT(cortado_wide_tile_t, low, TILE_DEPTH + 12);
CORTADO_AT(cortado_wide_tile_t, high, TILE_DEPTH + 16);

/* Two pixels, whose codes lie in turns: two of one, two of the other; an odd last one has a 0 behind it. One pixel,
 * whose codes are as they are. Return the stream after the last channel. */
const int8_t *cortado_conv_tile2_s16__dsp(const cortado_wide_tile_t *T, const void *x, int16_t *out);
const int8_t *cortado_conv_tile1_s16__dsp(const cortado_wide_tile_t *T, const int16_t *x, int16_t *out);

static inline int32_t cortado_two_codes(const int16_t *x) { return cortado_load4((const int8_t *)(const void *)x); }

/* n codes of one pixel to every second word. */
static inline int32_t *cortado_in_turns(int32_t *to, const int16_t *x, int32_t n)
{
    for (; n >= 8; n -= 8, x += 8, to += 8) {
        const int32_t a = cortado_two_codes(x), b = cortado_two_codes(x + 2);
        const int32_t c = cortado_two_codes(x + 4), d = cortado_two_codes(x + 6);
        to[0] = a;
        to[2] = b;
        to[4] = c;
        to[6] = d;
    }
    for (; n >= 2; n -= 2, x += 2, to += 2) {
        to[0] = cortado_two_codes(x);
    }
    if (n > 0) {
        to[0] = (uint16_t)*x;
    }
    return to;
}
#endif

#endif /* CONV_TILE_S16__DSP_H */
