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
 * Weights, bias and factors come in one stream, packed by packing.py in the order they are read.
 */
#ifndef CORTADO_BLOCK_H
#define CORTADO_BLOCK_H

#include "cortado.h"
#include "cortado_math.h"

#if CORTADO_SMALL_CORE
#define CORTADO_LANE 16
#define CORTADO_BLOCK_CHANNELS 1
#else
#define CORTADO_LANE 23
#define CORTADO_BLOCK_CHANNELS 2
#endif

/* block.S knows these offsets. */
typedef struct {
    const int8_t *stream;
    int32_t depth; /* products per output, a multiple of 4 */
    int32_t channels;
    int32_t stride; /* bytes from pixel to pixel of the output */
    int32_t offset, low, high;
} cortado_block_t;

/* One or two pixels; three or four. Return the stream after the last channel. */
const int8_t *cortado_block2(const cortado_block_t *B, const void *x, int32_t pixels, int8_t *out);
const int8_t *cortado_block4(const cortado_block_t *B, const void *x, int32_t pixels, int8_t *out);

static inline int32_t cortado_round4(int32_t n) { return (n + 3) & ~3; }

#endif /* CORTADO_BLOCK_H */
