/* SPDX-License-Identifier: Apache-2.0
 *
 * The heart of convolution on cores without vector instructions: all output channels of up to four pixels, whose
 * inputs lie unpacked in scratch memory. Internal.
 *
 * Three kinds of core, three ways to lay the pixels out (x[p][k] is product k of pixel p):
 *
 *   DSP     two products per multiply (SMLAD): halfwords. Of each four products k .. k + 3, first the words
 *           (x[k], x[k + 2]) of all pixels, then the words (x[k + 1], x[k + 3]).
 *   long    cores with a long multiply but no DSP instructions: two PIXELS per multiply. The word
 *           x[0][k] + x[1][k] * 2^23 times a weight is both products at once, in a 64-bit sum whose lower lane of 23
 *           bits holds 252 of them.
 *   small   cores without a long multiply: the same with lanes of 16 bits in a 32-bit sum, which hold two products if
 *           no weight is -128. The tile adds each such sum to a total and its upper lane to a second total; the lower
 *           lane is what remains of the first.
 *
 * Weights, bias and factors come in one stream, packed at compile time in the order they are read.
 */
#ifndef CONV_TILE_S8__SCALAR_DSP_H
#define CONV_TILE_S8__SCALAR_DSP_H

#include "cortado.h"
#include "cortado_math.h"

#if CORTADO_SMALL_CORE
#define CORTADO_LANE 16
#elif !defined(__ARM_FEATURE_DSP)
#define CORTADO_LANE 23
#endif

/* conv_tile_s8__scalar_dsp.S knows these offsets. */
typedef struct {
    const int8_t *stream;
    int32_t depth; /* products per output, a multiple of 4 */
    int32_t channels;
    int32_t stride; /* bytes from pixel to pixel of the output */
    int32_t offset, low, high;
} cortado_conv_tile_t;

/* One or two pixels; three or four. Return the stream after the last channel. */
const int8_t *CORTADO_ISA(cortado_conv_tile2_s8)(const cortado_conv_tile_t *B, const void *x, int32_t pixels, int8_t *out);
const int8_t *CORTADO_ISA(cortado_conv_tile4_s8)(const cortado_conv_tile_t *B, const void *x, int32_t pixels, int8_t *out);

static inline const int8_t *cortado_conv_tile(const cortado_conv_tile_t *B, const void *x, int32_t pixels, int8_t *out)
{
    return pixels > 2 ? CORTADO_ISA(cortado_conv_tile4_s8)(B, x, pixels, out) : CORTADO_ISA(cortado_conv_tile2_s8)(B, x, pixels, out);
}

/* Lays out n products of one pixel (DSP, in conv_tile_s8__scalar_dsp.S) or of two; words is how many a group of pixels has, 2 or 4 (DSP), 1
 * or 2. */
#if defined(CORTADO_LANE)
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
#else
int32_t *cortado_conv_tile_expand_s8__dsp(int32_t *to, int32_t words, const int8_t *x, int32_t n);
#endif

static inline int32_t cortado_round4(int32_t n) { return (n + 3) & ~3; }

#endif /* CONV_TILE_S8__SCALAR_DSP_H */
