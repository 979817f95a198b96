/* SPDX-License-Identifier: Apache-2.0
 *
 * Complex numbers of 32 bits and the butterflies of an FFT, with the multiply that the core has. Internal.
 *
 * All right shifts are floors. Twiddles are 16-bit fractions, stored negated: products are minus half of what they
 * stand for.
 */
#ifndef CORTADO_FFT_H
#define CORTADO_FFT_H

#include "cortado_math.h"

typedef struct {
    int32_t re, im;
} cortado_complex_t;

static inline cortado_complex_t cortado_complex(int32_t re, int32_t im)
{
    const cortado_complex_t v = {re, im};
    return v;
}

static inline cortado_complex_t cortado_plus(cortado_complex_t a, cortado_complex_t b)
{
    return cortado_complex(a.re + b.re, a.im + b.im);
}

static inline cortado_complex_t cortado_minus(cortado_complex_t a, cortado_complex_t b)
{
    return cortado_complex(a.re - b.re, a.im - b.im);
}

/* a + j b, a - j b */
static inline cortado_complex_t cortado_plus_j(cortado_complex_t a, cortado_complex_t b)
{
    return cortado_complex(a.re - b.im, a.im + b.re);
}

static inline cortado_complex_t cortado_minus_j(cortado_complex_t a, cortado_complex_t b)
{
    return cortado_complex(a.re + b.im, a.im - b.re);
}

/* p + n, which compilers shall keep in one register: each number is then read and written with one instruction. */
static inline cortado_complex_t *cortado_ahead(cortado_complex_t *p, int32_t n)
{
    p += n;
#if defined(__GNUC__) && defined(__arm__)
    __asm__("" : "+r"(p));
#endif
    return p;
}

static inline cortado_complex_t cortado_half(cortado_complex_t a) { return cortado_complex(a.re >> 1, a.im >> 1); }

static inline cortado_complex_t cortado_negative(cortado_complex_t a) { return cortado_complex(-a.re, -a.im); }

/* cortado_mulw: floor(a * w / 2^16) for a w of 16 bits with a sign. A twiddle comes as a word, cosine below, sine
 * above; cortado_twiddle is the form in which the core multiplies by it. */
#if defined(__ARM_FEATURE_DSP) && !CORTADO_SMALL_CORE

typedef uint32_t cortado_twiddle_t;

static inline cortado_twiddle_t cortado_twiddle(int32_t word) { return (uint32_t)word; }

static inline int32_t cortado_mulw(int32_t a, int32_t w)
{
    int32_t v;
    __asm__("smulwb %0, %1, %2" : "=r"(v) : "r"(a), "r"(w));
    return v;
}

static inline cortado_complex_t cortado_turned(cortado_complex_t a, cortado_twiddle_t w)
{
    int32_t re, im, side;
    __asm__("smulwb %0, %1, %2" : "=r"(re) : "r"(a.re), "r"(w));
    __asm__("smlawt %0, %1, %2, %0" : "+r"(re) : "r"(a.im), "r"(w));
    __asm__("smulwb %0, %1, %2" : "=r"(im) : "r"(a.im), "r"(w));
    __asm__("smulwt %0, %1, %2" : "=r"(side) : "r"(a.re), "r"(w));
    return cortado_complex(re, im - side);
}

#elif CORTADO_SMALL_CORE

typedef struct {
    int32_t cosine, sine;
} cortado_twiddle_t;

static inline cortado_twiddle_t cortado_twiddle(int32_t word)
{
    const cortado_twiddle_t w = {(int16_t)word, word >> 16};
    return w;
}

/* a = high * 2^16 + low: high * w is an integer, and low * w has 32 bits with its sign. */
static inline int32_t cortado_mulw(int32_t a, int32_t w) { return (a >> 16) * w + (((a & 0xFFFF) * w) >> 16); }

static inline cortado_complex_t cortado_turned(cortado_complex_t a, cortado_twiddle_t w)
{
    const int32_t rh = a.re >> 16, rl = a.re & 0xFFFF, ih = a.im >> 16, il = a.im & 0xFFFF;
    return cortado_complex(rh * w.cosine + ih * w.sine + ((rl * w.cosine) >> 16) + ((il * w.sine) >> 16),
                           ih * w.cosine - rh * w.sine + ((il * w.cosine) >> 16) - ((rl * w.sine) >> 16));
}

#else

typedef struct {
    int32_t cosine, sine; /* in the upper halves */
} cortado_twiddle_t;

static inline cortado_twiddle_t cortado_twiddle(int32_t word)
{
    const cortado_twiddle_t w = {(int32_t)((uint32_t)word << 16), (int32_t)((uint32_t)word & 0xFFFF0000u)};
    return w;
}

static inline int32_t cortado_high(int32_t a, int32_t b) { return (int32_t)(((int64_t)a * b) >> 32); }

static inline int32_t cortado_mulw(int32_t a, int32_t w) { return cortado_high(a, (int32_t)((uint32_t)w << 16)); }

static inline cortado_complex_t cortado_turned(cortado_complex_t a, cortado_twiddle_t w)
{
    return cortado_complex(cortado_high(a.re, w.cosine) + cortado_high(a.im, w.sine),
                           cortado_high(a.im, w.cosine) - cortado_high(a.re, w.sine));
}

#endif

/* The butterflies: `a`, and the negatives of the other legs, in place of p[0], p[q], ... */
static inline void cortado_butterfly2(cortado_complex_t *p, int32_t q, cortado_complex_t a, cortado_complex_t b)
{
    p[0] = cortado_minus(a, b);
    p[q] = cortado_plus(a, b);
}

static inline void cortado_butterfly3(cortado_complex_t *p, int32_t q, cortado_complex_t a, cortado_complex_t b,
                                      cortado_complex_t c)
{
    const cortado_complex_t sum = cortado_plus(b, c), middle = cortado_plus(a, cortado_half(sum));
    cortado_complex_t side = cortado_minus(b, c);
    side.re += cortado_mulw(side.re, -8780); /* sin(60 degrees) - 1 */
    side.im += cortado_mulw(side.im, -8780);
    p[0] = cortado_minus(a, sum);
    p[q] = cortado_plus_j(middle, side);
    p[2 * q] = cortado_minus_j(middle, side);
}

static inline void cortado_butterfly4(cortado_complex_t *p, int32_t q, cortado_complex_t a, cortado_complex_t b,
                                      cortado_complex_t c, cortado_complex_t d)
{
    const cortado_complex_t even = cortado_minus(a, c), odd = cortado_plus(a, c);
    const cortado_complex_t sum = cortado_plus(b, d), side = cortado_minus(b, d);
    p[0] = cortado_minus(even, sum);
    p[q] = cortado_plus_j(odd, side);
    p[2 * q] = cortado_plus(even, sum);
    p[3 * q] = cortado_minus_j(odd, side);
}

/* The real or the imaginary parts of a butterfly of radix 5 from p[0] on, in place of p[0], p[2 * q] ...: half of p[0],
 * and of the legs outer = 1 + 4, inner = 2 + 3, and of the other parts out = 1 - 4, in = 2 - 3, or their negatives. The
 * constants are cos(72 degrees), 1 + cos(144 degrees), sin(72 degrees) - 1 and sin(144 degrees) - 1. */
#if CORTADO_SMALL_CORE && defined(__GNUC__)
static __attribute__((noinline, unused)) void /* copies of it would be long */
#else
static inline void
#endif
cortado_parts5(int32_t *p, int32_t q, int32_t outer, int32_t inner, int32_t high, int32_t low)
{
    const int32_t a = *p >> 1;
    const int32_t near = a + inner - cortado_mulw(outer, 20252) - cortado_mulw(inner, 12516);
    const int32_t far = a + outer - cortado_mulw(inner, 20252) - cortado_mulw(outer, 12516);
    p[0] = a - outer - inner;
    p[2 * q] = near + high;
    p[4 * q] = far + low;
    p[6 * q] = far - low;
    p[8 * q] = near - high;
}

static inline int32_t cortado_high5(int32_t out, int32_t in)
{
    return out + cortado_mulw(out, -3208) + in + cortado_mulw(in, -27015);
}

static inline int32_t cortado_low5(int32_t out, int32_t in)
{
    return out + cortado_mulw(out, -27015) - in - cortado_mulw(in, -3208);
}

/* p[0], and the negatives of the other legs. */
static inline void cortado_butterfly5(cortado_complex_t *p, int32_t q, cortado_complex_t b, cortado_complex_t c,
                                      cortado_complex_t d, cortado_complex_t e)
{
    const cortado_complex_t outer = cortado_plus(b, e), inner = cortado_plus(c, d);
    const cortado_complex_t out = cortado_minus(b, e), in = cortado_minus(c, d);
    cortado_parts5(&p->re, q, outer.re, inner.re, -cortado_high5(out.im, in.im), -cortado_low5(out.im, in.im));
    cortado_parts5(&p->im, q, outer.im, inner.im, cortado_high5(out.re, in.re), cortado_low5(out.re, in.re));
}

#endif /* CORTADO_FFT_H */
