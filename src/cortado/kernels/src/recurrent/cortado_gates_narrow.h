/* SPDX-License-Identifier: Apache-2.0
 *
 * What the gates of recurrent layers with 4-bit weights share: four rows of one path, chunk by chunk. Internal.
 */
#ifndef CORTADO_GATES_NARROW_H
#define CORTADO_GATES_NARROW_H

#include "cortado_math.h"
#include "cortado_narrow.h"

#define CORTADO_NARROW_CHUNK 512 /* products of a row without factors that are summed up at a time */
#define CORTADO_NARROW_ROWS 4

/* A word of the stream, all of which is words. */
static inline int32_t cortado_stream_word(const int8_t *p)
{
#if defined(__GNUC__)
    int32_t v;
    __builtin_memcpy(&v, __builtin_assume_aligned(p, 4), sizeof v);
    return v;
#else
    return cortado_load4(p);
#endif
}

/* The sums of n products of each row; returns the stream behind them. */
typedef const int8_t *(*cortado_products_t)(const int8_t *x, const int8_t *stream, int32_t n, int32_t *sums);

static inline const int8_t *cortado_narrow_products(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates,
                                                    cortado_products_t add)
{
    gates[0] = gates[1] = gates[2] = gates[3] = 0;
    for (; n > 0; n -= CORTADO_NARROW_CHUNK, x += CORTADO_NARROW_CHUNK) {
        int32_t sums[CORTADO_NARROW_ROWS];
        stream = add(x, stream, cortado_min(n, CORTADO_NARROW_CHUNK), sums);
        gates[0] += sums[0];
        gates[1] += sums[1];
        gates[2] += sums[2];
        gates[3] += sums[3];
    }
    return stream;
}

/* With factors: in front of every two runs a word of theirs, those of the first run and in it of the first row in its
 * lowest bits, each less 3. */
static inline const int8_t *cortado_runs_products(const int8_t *x, const int8_t *stream, int32_t n, int32_t *gates,
                                                  cortado_products_t add)
{
    uint32_t factors = 0;
    gates[0] = gates[1] = gates[2] = gates[3] = 0;
    for (int32_t run = 0; n > 0; n -= CORTADO_NARROW_RUN, x += CORTADO_NARROW_RUN, run++) {
        int32_t sums[CORTADO_NARROW_ROWS];
        factors >>= 16;
        if ((run & 1) == 0) {
            factors = (uint32_t)cortado_stream_word(stream);
            stream += 4;
        }
        stream = add(x, stream, cortado_min(n, CORTADO_NARROW_RUN), sums);
        gates[0] += sums[0] * (int32_t)(3u + (factors & 15u));
        gates[1] += sums[1] * (int32_t)(3u + (factors >> 4 & 15u));
        gates[2] += sums[2] * (int32_t)(3u + (factors >> 8 & 15u));
        gates[3] += sums[3] * (int32_t)(3u + (factors >> 12 & 15u));
    }
    return stream;
}

#endif /* CORTADO_GATES_NARROW_H */
