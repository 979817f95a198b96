/* The functions of cortado_f32.h for this machine, and how far they are from the true values, over any range of bits. */
#include "float32_functions.h"

#include <math.h>

void apply(int32_t function, const uint32_t *x, const uint32_t *y, uint32_t *out, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        out[i] = cortado_f32_bits(value_of(function, cortado_f32_from(x[i]), cortado_f32_from(y[i])));
    }
}

void patterns(uint32_t *x, uint32_t *y, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        x[i] = pattern((uint32_t)i);
        y[i] = second_pattern((uint32_t)i);
    }
}

static double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
static double rsqrt(double x) { return 1.0 / sqrt(x); }
static double reciprocal(double x) { return 1.0 / x; }

static double (*const truth[UNARY])(double) = {exp,  exp2, expm1, sigmoid, tanh, erf,  log,   log2,       log10, log1p, sin, cos,
                                               tan,  atan, asin,  acos,    sqrt, rsqrt, reciprocal, trunc, floor, ceil, rint};

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* In units in the last place of the true value; infinite for a wrong sign, NaN or infinity. */
static double distance(float got, double exact)
{
    const double limit = 340282356779733661637539395458142568448.0; /* from here on, the nearest float is infinity */
    if (exact != exact || got != got) {
        return cortado_f32_bits(got) == 0x7FC00000u && exact != exact ? 0.0 : INFINITY;
    }
    if (!signbit(got) != !signbit(exact)) {
        return INFINITY;
    }
    if (fabs(exact) >= limit) {
        return fabs(got) > FLT_MAX ? 0.0 : isinf(exact) ? INFINITY : (limit - fabs(got)) * 0x1p-104;
    }
    if (isinf(got)) {
        return (limit - fabs(exact)) * 0x1p-104;
    }
    const uint64_t exponent = bits_of(exact) >> 52 & 0x7FF; /* of 2^0: 1023 */
    const uint64_t unit = exponent < 1023 - 126 ? 1023 - 149 : exponent - 23;
    return fabs(got - exact) * double_of((2046 - unit) << 52);
}

/* The largest distance of a function on first, first + step, ... below `end`, and where it is. */
double farthest(int32_t function, uint64_t first, uint64_t end, uint64_t step, uint32_t *where)
{
    double worst = -1.0;
    for (uint64_t bits = first; bits < end; bits += step) {
        const float x = cortado_f32_from((uint32_t)bits);
        const double d = distance(unary[function](x), truth[function](x));
        if (d > worst) {
            worst = d;
            *where = (uint32_t)bits;
        }
    }
    return worst;
}
