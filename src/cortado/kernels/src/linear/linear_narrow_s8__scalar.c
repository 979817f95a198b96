/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear layers with 4-bit weights on small cores: see conv_narrow_s8__scalar.h.
 *
 * Tile: 1 pixel x 4 channels. Scratch: the pixel, and with factors a word for each run.
 *
 * The stream, for each four channels; channels that make a four whole, and products that make a sixteen, are zeros:
 *
 *   | weights, as in linear_sums_s8__scalar.S | bias 4 | multiplier 4 | shift 4 |  the last three of each channel
 *   with factors, in front of that: | of a, b, c, d, each less 3 in four bits: 2 for each run |, a multiple of 4
 */
#include "conv_narrow_s8__scalar.h"

#if defined(__thumb__) && CORTADO_SMALL_CORE

/* Copies n codes and the zeros behind them to x, up to `end`; returns their sum, eight times. */
static int32_t copied(int8_t *x, const int8_t *end, const int8_t *in, int32_t n)
{
    int32_t sum = 0;
    for (; n > 0; n--) {
        sum += *in;
        *x++ = *in++;
        CORTADO_STAY_A_LOOP;
    }
    while (x != end) {
        *x++ = 0;
        CORTADO_STAY_A_LOOP;
    }
    return 8 * sum;
}

/* Four sums, without their biases, to outputs; returns the stream behind their factors. */
static const int8_t *finish(const cortado_conv1x1_packed_t *L, const int8_t *stream, const int32_t *sums, int8_t *out,
                            int32_t channels)
{
    const int32_t *words = (const int32_t *)(const void *)stream;
    for (int32_t i = 0; i < 4; i++, words += 3) {
        if (i < channels) {
            const int32_t v = cortado_requant(sums[i] + words[0], words[1], words[2]) + L->out_offset;
            out[i] = (int8_t)cortado_clamp(v, L->act_min, L->act_max);
        }
    }
    return stream + 48;
}

void cortado_linear_narrow_s8__scalar(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                      void *scratch)
{
    const int8_t *const end = (const int8_t *)scratch + ((L->in_c + 15) & ~15);
    for (; pixels > 0; pixels--, in += L->in_c, out += L->out_c) {
        const int32_t more = copied(scratch, end, in, L->in_c);
        const int8_t *stream = L->weights;
        for (int32_t c = 0; c < L->out_c; c += 4) {
            int32_t sums[4];
            stream = cortado_linear_sums_s8__scalar(scratch, stream, end, sums);
            for (int32_t i = 0; i < 4; i++) {
                sums[i] -= more;
            }
            stream = finish(L, stream, sums, out + c, L->out_c - c);
        }
    }
}

/* The sums of x of each run, eight times. */
static void run_sums(const int8_t *x, int32_t runs, int32_t *sums)
{
    for (; runs > 0; runs--) {
        int32_t sum = 0;
        for (int32_t i = CORTADO_NARROW_RUN; i > 0; i--) {
            sum += *x++;
        }
        *sums++ = 8 * sum;
    }
}

void cortado_linear_runs_s8__scalar(const cortado_conv1x1_packed_t *L, const int8_t *in, int8_t *out, int32_t pixels,
                                    void *scratch)
{
    const int32_t runs = (L->in_c + CORTADO_NARROW_RUN - 1) / CORTADO_NARROW_RUN;
    int8_t *const x = scratch, *const end = x + CORTADO_NARROW_RUN * runs;
    int32_t *const more = (int32_t *)(void *)end;
    for (; pixels > 0; pixels--, in += L->in_c, out += L->out_c) {
        (void)copied(x, end, in, L->in_c);
        run_sums(x, runs, more);
        const int8_t *stream = L->weights;
        for (int32_t c = 0; c < L->out_c; c += 4) {
            const uint8_t *factors = (const uint8_t *)stream;
            int32_t sums[4], run[4];
            sums[0] = sums[1] = sums[2] = sums[3] = 0;
            stream += (2 * runs + 3) & ~3;
            for (int32_t r = 0; r < runs; r++, factors += 2) {
                const int8_t *const part = x + CORTADO_NARROW_RUN * r;
                stream = cortado_linear_sums_s8__scalar(part, stream, part + CORTADO_NARROW_RUN, run);
                sums[0] += (run[0] - more[r]) * ((factors[0] & 15) + 3);
                sums[1] += (run[1] - more[r]) * ((factors[0] >> 4) + 3);
                sums[2] += (run[2] - more[r]) * ((factors[1] & 15) + 3);
                sums[3] += (run[3] - more[r]) * ((factors[1] >> 4) + 3);
            }
            stream = finish(L, stream, sums, out + c, L->out_c - c);
        }
    }
}
#else
typedef int cortado_linear_narrow_needs_a_small_core; /* an empty translation unit is not C */
#endif
