/* The functions of cortado_f32.h by number, in the order of helpers/float32.py. */
#include "cortado_f32_angles.h"

typedef float (*unary_t)(float);
typedef float (*binary_t)(float, float);

#define ONE_ARGUMENT(name) \
    static float call_##name(float x) { return cortado_f32_##name(x); }
#define TWO_ARGUMENTS(name) \
    static float call_##name(float x, float y) { return cortado_f32_##name(x, y); }

ONE_ARGUMENT(exp)
ONE_ARGUMENT(exp2)
ONE_ARGUMENT(expm1)
ONE_ARGUMENT(sigmoid)
ONE_ARGUMENT(tanh)
ONE_ARGUMENT(erf)
ONE_ARGUMENT(log)
ONE_ARGUMENT(log2)
ONE_ARGUMENT(log10)
ONE_ARGUMENT(log1p)
ONE_ARGUMENT(sin)
ONE_ARGUMENT(cos)
ONE_ARGUMENT(tan)
ONE_ARGUMENT(atan)
ONE_ARGUMENT(asin)
ONE_ARGUMENT(acos)
ONE_ARGUMENT(sqrt)
ONE_ARGUMENT(rsqrt)
ONE_ARGUMENT(reciprocal)
ONE_ARGUMENT(trunc)
ONE_ARGUMENT(floor)
ONE_ARGUMENT(ceil)
ONE_ARGUMENT(rint)
TWO_ARGUMENTS(atan2)
TWO_ARGUMENTS(pow)
static float call_add(float x, float y) { return cortado_f32_canonical(x + y); }
static float call_mul(float x, float y) { return cortado_f32_canonical(cortado_f32_mul(x, y)); }
static float call_div(float x, float y) { return cortado_f32_canonical(x / y); }
static float call_step(float x, float y) { return cortado_f32_canonical(cortado_f32_step(x, y, x)); }
static float call_to_int(float x, float y)
{
    return (float)cortado_f32_to_int(x, y < 0.0f ? -128 : INT32_MIN, y < 0.0f ? 127 : INT32_MAX);
}

static const unary_t unary[] = {call_exp,   call_exp2, call_expm1, call_sigmoid, call_tanh,  call_erf,
                                call_log,   call_log2, call_log10, call_log1p,   call_sin,   call_cos,
                                call_tan,   call_atan, call_asin,  call_acos,    call_sqrt,  call_rsqrt,
                                call_reciprocal, call_trunc, call_floor, call_ceil, call_rint};
static const binary_t binary[] = {call_atan2, call_pow, call_add, call_mul, call_div, call_step, call_to_int};
enum { UNARY = sizeof unary / sizeof unary[0], BINARY = sizeof binary / sizeof binary[0] };

static inline float value_of(int32_t function, float x, float y)
{
    return function < UNARY ? unary[function](x) : binary[function - UNARY](x, y);
}

/* A pattern of bits: of four, one is any float, one denormal, two of ordinary size; the first ones are special. */
static inline uint32_t pattern(uint32_t i)
{
    static const uint32_t special[16] = {0,           0x80000000u, 1,           0x80000001u, 0x7F800000u, 0xFF800000u,
                                         0x7FC00000u, 0xFFC00001u, 0x7F7FFFFFu, 0xFF7FFFFFu, 0x3F800000u, 0xBF800000u,
                                         0x00800000u, 0x7F800001u, 0x3F000000u, 0x4B800001u};
    if (i < 256) {
        return special[i & 15];
    }
    uint32_t h = i * 0x9E3779B1u;
    h = (h ^ h >> 15) * 0x85EBCA77u;
    h = (h ^ h >> 13) * 0xC2B2AE3Du;
    h ^= h >> 16;
    if ((i & 3) == 0) {
        return h;
    }
    const uint32_t exponent = (i & 3) == 1 ? 0 : 112 + (h >> 23) % 24;
    return (h & 0x807FFFFFu) | exponent << 23;
}

/* The second argument: other specials beside each of the first, other patterns behind. */
static inline uint32_t second_pattern(uint32_t i) { return pattern(i < 256 ? i >> 4 : i ^ 0x40000002u); }
