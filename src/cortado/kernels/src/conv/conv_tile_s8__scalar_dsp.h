/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of convolution on cores without vector instructions: all output channels of a tile of a few pixels,
 * whose inputs lie unpacked in scratch memory. Internal. The stream it reads is described in
 * conv_tile_s8__scalar_dsp.S. On DSP cores conv_lanes_s8__dsp.h is for most layers; this one takes the others.
 *
 * Three kinds of core, three ways to lay the pixels out (x[p][k] is product k of pixel p):
 *
 *   DSP     two products per multiply (SMLAD): halfwords, as conv_window_s8__dsp.h says.
 *   long    cores with a long multiply but no DSP instructions, and
 *   small   cores without: two PIXELS per multiply. The word x[0][k] + x[1][k] * 2^16 times a weight is both products
 *           at once, and the lanes of 16 bits hold two such. The tile adds each sum of two to a total and its upper
 *           lane to a second total; the lower lane is what remains of the first.
 */
#ifndef CONV_TILE_S8__SCALAR_DSP_H
#define CONV_TILE_S8__SCALAR_DSP_H

#include "cortado_isa.h"

/* Members of cortado_conv_tile_t, for the assembly. */
#define TILE_STREAM 0
#define TILE_DEPTH 4
#define TILE_CHANNELS 8
#define TILE_STRIDE 12 /* offset, low and high are read with it */

#if !defined(__ASSEMBLER__)
#include "cortado.h"
#include "cortado_math.h"

/* Pixels of a tile at most; two of them in a word, or halfwords. */
#if CORTADO_SMALL_CORE
#define CORTADO_TILE_PIXELS 4
#else
#define CORTADO_TILE_PIXELS 2
#endif
#if CORTADO_SMALL_CORE || !defined(__ARM_FEATURE_DSP)
#define CORTADO_LANE 16
#endif

typedef struct {
    const int8_t *stream;
    int32_t depth; /* products per output, a multiple of 4 */
    int32_t channels;
    int32_t stride; /* bytes from pixel to pixel of the output */
    int32_t offset, low, high;
} cortado_conv_tile_t;

CORTADO_AT(cortado_conv_tile_t, stream, TILE_STREAM);
CORTADO_AT(cortado_conv_tile_t, depth, TILE_DEPTH);
CORTADO_AT(cortado_conv_tile_t, channels, TILE_CHANNELS);
CORTADO_AT(cortado_conv_tile_t, stride, TILE_STRIDE);
CORTADO_AT(cortado_conv_tile_t, offset, TILE_STRIDE + 4);
CORTADO_AT(cortado_conv_tile_t, low, TILE_STRIDE + 8);
CORTADO_AT(cortado_conv_tile_t, high, TILE_STRIDE + 12);

/* One or two pixels; three or four, on small cores only. Return the stream after the last channel. */
const int8_t *CORTADO_ISA(cortado_conv_tile2_s8)(const cortado_conv_tile_t *T, const void *x, int32_t pixels,
                                                 int8_t *out);
const int8_t *CORTADO_ISA(cortado_conv_tile4_s8)(const cortado_conv_tile_t *T, const void *x, int32_t pixels,
                                                 int8_t *out);

static inline const int8_t *cortado_conv_tile(const cortado_conv_tile_t *T, const void *x, int32_t pixels, int8_t *out)
{
#if CORTADO_TILE_PIXELS == 4
    if (pixels > 2) {
        return CORTADO_ISA(cortado_conv_tile4_s8)(T, x, pixels, out);
    }
#endif
    return CORTADO_ISA(cortado_conv_tile2_s8)(T, x, pixels, out);
}

#if defined(CORTADO_LANE)
/* Lays out n products of two pixels; `words` is the number of words per group of pixels, 1 or 2. */
static inline int32_t cortado_conv_tile_pair(const int8_t *x0, const int8_t *x1)
{
    return *x0 + (int32_t)((uint32_t)*x1 << CORTADO_LANE);
}

static inline int32_t *cortado_conv_tile_pack(int32_t *to, int32_t words, const int8_t *x0, const int8_t *x1, int32_t n)
{
    for (; n >= 4; n -= 4, x0 += 4, x1 += 4) {
        to[0] = cortado_conv_tile_pair(x0, x1);
        to += words;
        to[0] = cortado_conv_tile_pair(x0 + 1, x1 + 1);
        to += words;
        to[0] = cortado_conv_tile_pair(x0 + 2, x1 + 2);
        to += words;
        to[0] = cortado_conv_tile_pair(x0 + 3, x1 + 3);
        to += words;
    }
    for (; n > 0; n--) {
        *to = cortado_conv_tile_pair(x0++, x1++);
        to += words;
    }
    return to;
}
#endif

#endif
#endif /* CONV_TILE_S8__SCALAR_DSP_H */
