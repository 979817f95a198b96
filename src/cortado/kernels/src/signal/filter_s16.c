/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of 16 bits through a cascade of second-order sections, with states of 32 bits and sums of 64. What a sum
 * loses when it is rounded goes into the next one.
 *
 * Tile: 1 sample. Scratch: the state, 20 bytes for each section of each channel, where it is not kept.
 */
#include "cortado.h"
#include "cortado_math.h"

#define LIFT 13
#define BITS 30
#define LARGEST (((int32_t)1 << 29) - 1)

/* The state of a section: its last two inputs and outputs, and what the last sum lost. */
enum { U1, U2, Y1, Y2, REST, WORDS };

#if CORTADO_SMALL_CORE
/* acc + a * b of 64 bits by products of 16, where a call of the compiler's own takes twice as long. */
static inline int64_t add_product(int64_t acc, int32_t a, int32_t b)
{
    const uint32_t al = (uint16_t)a, bl = (uint16_t)b;
    const int32_t ah = a >> 16, bh = b >> 16;
    const uint32_t low = al * bl;
    const int32_t first = (int32_t)((uint32_t)ah * bl), other = (int32_t)((uint32_t)bh * al);
    acc += low;
    acc += (int64_t)first * 65536;
    acc += (int64_t)other * 65536;
    return acc + (int64_t)((uint64_t)(int64_t)(ah * bh) << 32);
}
#else
static inline int64_t add_product(int64_t acc, int32_t a, int32_t b) { return acc + (int64_t)a * b; }
#endif

static int32_t section(const int32_t *c, int32_t *s, int32_t u)
{
    const int32_t y1 = s[Y1];
    int64_t v = add_product(s[REST], c[0], u);
    v = add_product(v, c[1], s[U1]);
    v = add_product(v, c[2], s[U2]);
    int64_t w = add_product(0, c[3], y1);
    w = add_product(w, c[4], s[Y2]);
    v -= w;
    s[U2] = s[U1];
    s[U1] = u;
    s[Y2] = y1;
    s[REST] = (int32_t)((uint32_t)v & (((uint32_t)1 << BITS) - 1));
    const int64_t y = v >> BITS;
    s[Y1] = y > LARGEST ? LARGEST : y < -LARGEST - 1 ? -LARGEST - 1 : (int32_t)y;
    return s[Y1];
}

void cortado_filter_s16(const cortado_filter_t *L, const int16_t *in, const int32_t *before, int16_t *out,
                        int32_t *after)
{
    const int32_t words = L->sections * WORDS;
    for (int32_t channel = 0; channel < L->channels; channel++, after += words) {
        for (int32_t i = 0; i < words; i++) {
            after[i] = before != NULL ? *before++ : 0;
            CORTADO_STAY_A_LOOP;
        }
        for (int32_t n = 0; n < L->samples; n++) {
            const int32_t *c = L->coefficients;
            int32_t *s = after, v = *in++ * (1 << LIFT);
            for (int32_t i = 0; i < L->sections; i++, c += 5, s += WORDS) {
                v = section(c, s, v);
            }
            v = cortado_requant(v, L->out_multiplier, L->out_shift);
            if (out != NULL) {
                *out++ = (int16_t)cortado_clamp(v, L->act_min, L->act_max);
            }
        }
    }
}
