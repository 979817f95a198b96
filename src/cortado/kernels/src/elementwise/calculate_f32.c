/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic of two operands in float32.
 *
 * Tile: 1 element. Scratch: none.
 */
#include "cortado_operands_f32.h"

static int holds(float a, float b, int32_t accepts)
{
    if (accepts == (CORTADO_BELOW | CORTADO_ABOVE)) {
        return a != b;
    }
    return ((accepts & CORTADO_BELOW) != 0 && a < b) || ((accepts & CORTADO_EQUAL) != 0 && a == b) ||
           ((accepts & CORTADO_ABOVE) != 0 && a > b);
}

static float calculated(float a, float b, int32_t how)
{
    switch (how) {
    case CORTADO_SUM:
        return a + b;
    case CORTADO_DIFFERENCE:
        return a - b;
    case CORTADO_PRODUCT:
        return a * b;
    case CORTADO_QUOTIENT:
        return a / b;
    case CORTADO_SMALLER:
        return b < a || b != b ? b : a;
    case CORTADO_LARGER:
        return b > a || b != b ? b : a;
    default:
        return holds(a, b, how - CORTADO_COMPARISON) ? 1.0f : 0.0f;
    }
}

#if defined(CORTADO_ONE_NAN)
/* Fours of elements, of two tensors or of one and a number; a list of words costs a cycle more than its words. */
#define OPERATION(name, to, b) name " s" #to ", s" #to ", " b "\n"
#define FOURS(name, load, b0, b1, b2, b3, ...)                                                                         \
    __asm__ volatile("1:\n"                                                                                            \
                     "vldmia %[a]!, {s0-s3}\n" load OPERATION(name, 0, b0) OPERATION(name, 1, b1)                      \
                         OPERATION(name, 2, b2) OPERATION(name, 3, b3) "vstmia %[out]!, {s0-s3}\n"                     \
                     "subs %[left], %[left], #1\n"                                                                     \
                     "bne 1b\n"                                                                                        \
                     : [a] "+r"(a), [b] "+r"(b), [out] "+r"(out), [left] "+r"(left)                                    \
                     : __VA_ARGS__                                                                                     \
                     : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "cc", "memory")
#define OF_TWO(name) FOURS(name, "vldmia %[b]!, {s4-s7}\n", "s4", "s5", "s6", "s7", [y] "t"(0.0f))
#define BY_ONE(name) FOURS(name, "", "%[y]", "%[y]", "%[y]", "%[y]", [y] "t"(*b))

/* Returns how many elements they are. */
static int32_t fours(cortado_operands_f32_t S, float *out, int32_t n, int32_t how)
{
    const int swapped = S.a_step == 0 && how != CORTADO_DIFFERENCE;
    const float *a = swapped ? S.b : S.a, *b = swapped ? S.a : S.b;
    const int one = swapped || S.b_step == 0;
    int32_t left = n >> 2;
    if (left == 0 || (swapped ? S.b_step : S.a_step) == 0) {
        return 0;
    }
    if (how == CORTADO_SUM) {
        if (one) {
            BY_ONE("vadd.f32");
        } else {
            OF_TWO("vadd.f32");
        }
    } else if (how == CORTADO_DIFFERENCE) {
        if (one) {
            BY_ONE("vsub.f32");
        } else {
            OF_TWO("vsub.f32");
        }
    } else {
        if (one) {
            BY_ONE("vmul.f32");
        } else {
            OF_TWO("vmul.f32");
        }
    }
    return n & ~3;
}
#else
static int32_t fours(cortado_operands_f32_t S, float *out, int32_t n, int32_t how)
{
    (void)S, (void)out, (void)n, (void)how;
    return 0;
}
#endif

/* Without bounds. */
static void plain(const cortado_operands_f32_t S, float *out, int32_t n, int32_t how)
{
    const uint32_t before = cortado_one_nan();
    const int32_t done = fours(S, out, n, how);
    if (done == n) {
        cortado_any_nan(before);
        return;
    }
    const cortado_operands_f32_t rest = {S.a + done * S.a_step, S.b + done * S.b_step, S.a_step, S.b_step};
    if (how == CORTADO_SUM) {
        CORTADO_EACH_F32(rest, out + done, n - done, cortado_result(x + y));
    } else if (how == CORTADO_DIFFERENCE) {
        CORTADO_EACH_F32(rest, out + done, n - done, cortado_result(x - y));
    } else {
        CORTADO_EACH_F32(rest, out + done, n - done, cortado_result(cortado_f32_mul(x, y)));
    }
    cortado_any_nan(before);
}

/* One loop for each operation that networks are full of; all others choose for each number. */
static void calculate(const cortado_calculate_f32_t *L, const cortado_operands_f32_t S, float *out, int32_t n)
{
    const float low = L->act_min, high = L->act_max, infinity = cortado_f32_infinity();
    if (L->how <= CORTADO_PRODUCT && low == -infinity && high == infinity) {
        plain(S, out, n, L->how);
        return;
    }
    switch (L->how) {
    case CORTADO_SUM:
        CORTADO_EACH_F32(S, out, n, cortado_bounded(x + y, low, high));
        break;
    case CORTADO_DIFFERENCE:
        CORTADO_EACH_F32(S, out, n, cortado_bounded(x - y, low, high));
        break;
    case CORTADO_PRODUCT:
        CORTADO_EACH_F32(S, out, n, cortado_bounded(x * y, low, high));
        break;
    default:
        CORTADO_EACH_F32(S, out, n, cortado_bounded(calculated(x, y, L->how), low, high));
        break;
    }
}

void cortado_calculate_f32(const cortado_calculate_f32_t *L, const float *a, const float *b, float *out, int32_t n)
{
    if (n == 1) {
        const float x = a == NULL ? L->number : *a, y = b == NULL ? L->number : *b;
        *out = cortado_bounded(calculated(x, y, L->how), L->act_min, L->act_max);
    } else {
        cortado_spans_f32(L, a, b, out, n, calculate);
    }
}

void cortado_calculate_strided_f32(const cortado_calculate_strided_t *L, const float *a, const float *b, float *out)
{
    int32_t at[6] = {0, 0, 0, 0, 0, 0};
    for (int32_t more = 1; more != 0;) {
        *out++ = cortado_bounded(calculated(*a, *b, L->how), L->act_min, L->act_max);
        more = 0;
        for (int32_t dim = L->rank - 1; dim >= 0 && more == 0; dim--) {
            a += L->a_stride[dim];
            b += L->b_stride[dim];
            more = ++at[dim] < L->shape[dim];
            if (more == 0) {
                a -= L->a_stride[dim] * L->shape[dim];
                b -= L->b_stride[dim] * L->shape[dim];
                at[dim] = 0;
            }
        }
    }
}
