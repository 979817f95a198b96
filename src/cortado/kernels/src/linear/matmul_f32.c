/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of matrices in float32.
 *
 * Tile: 4 outputs. Scratch: none.
 */
#include "cortado_float.h"

/* The operands of four sums: `common` for all, `own` for the first; those of the next sum are `apart` further. */
typedef struct {
    const float *common, *own;
    int32_t common_step, own_step, apart;
} sums_t;

#if defined(CORTADO_ONE_NAN)
/* Four products by one number, their sums; a list of words costs a cycle more than its words. */
#define MUL(a, x) "vmul.f32 s" #a ", s" #a ", s" #x "\n"
#define MUL4(a, b, c, d, x) MUL(a, x) MUL(b, x) MUL(c, x) MUL(d, x)
#define ADD(to, a) "vadd.f32 %[" #to "], %[" #to "], s" #a "\n"
#define ADD4(a, b, c, d) ADD(s, a) ADD(t, b) ADD(u, c) ADD(v, d)

/* Rows of fours of numbers times a column, four by four; returns how many rows they are. */
static int32_t rows_by_fours(const float *a, const float *column, int32_t depth, int32_t count, float *out)
{
    const uint32_t before = cortado_one_nan();
    for (int32_t row = (depth & 3) == 0 ? count : 0; row >= 4; row -= 4) {
        const float *x = column, *b = a + depth, *c = b + depth, *d = c + depth;
        float s = 0.0f, t = 0.0f, u = 0.0f, v = 0.0f;
        int32_t left = depth >> 2;
        __asm__ volatile("1:\n"
                         "vldmia %[x]!, {s16-s19}\n"
                         "vldmia %[a]!, {s0-s3}\n"
                         "vldmia %[b]!, {s4-s7}\n"
                         "vldmia %[c]!, {s8-s11}\n"
                         "vldmia %[d]!, {s12-s15}\n" MUL4(0, 4, 8, 12, 16) MUL4(1, 5, 9, 13, 17) ADD4(0, 4, 8, 12)
                             MUL4(2, 6, 10, 14, 18) ADD4(1, 5, 9, 13) MUL4(3, 7, 11, 15, 19) ADD4(2, 6, 10, 14)
                                 ADD4(3, 7, 11, 15) "subs %[left], %[left], #1\n"
                         "bne 1b\n"
                         : [x] "+r"(x), [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d), [left] "+r"(left),
                           [s] "+t"(s), [t] "+t"(t), [u] "+t"(u), [v] "+t"(v)
                         :
                         : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13",
                           "s14", "s15", "s16", "s17", "s18", "s19", "cc", "memory");
        a = d;
        *out++ = s;
        *out++ = t;
        *out++ = u;
        *out++ = v;
    }
    cortado_any_nan(before);
    return (depth & 3) == 0 ? count & ~3 : 0;
}
#else
static int32_t rows_by_fours(const float *a, const float *column, int32_t depth, int32_t count, float *out)
{
    (void)a, (void)column, (void)depth, (void)count, (void)out;
    return 0;
}
#endif

static void four(const sums_t S, int32_t depth, float *out)
{
    const float *x = S.common, *a = S.own, *b = a + S.apart, *c = b + S.apart, *d = c + S.apart;
    float s = 0.0f, t = 0.0f, u = 0.0f, v = 0.0f;
    for (int32_t k = depth; k > 0; k--, x += S.common_step) {
        const float y = *x;
        const float e = cortado_f32_mul(y, *a), f = cortado_f32_mul(y, *b);
        const float g = cortado_f32_mul(y, *c), h = cortado_f32_mul(y, *d);
        s = s + e;
        t = t + f;
        u = u + g;
        v = v + h;
        a += S.own_step;
        b += S.own_step;
        c += S.own_step;
        d += S.own_step;
    }
    out[0] = cortado_f32_canonical(s);
    out[1] = cortado_f32_canonical(t);
    out[2] = cortado_f32_canonical(u);
    out[3] = cortado_f32_canonical(v);
}

static float one(const sums_t S, int32_t depth)
{
    const float *x = S.common, *y = S.own;
    float sum = 0.0f;
#if defined(CORTADO_ONE_NAN)
    int32_t left = S.own_step == 1 && S.common_step == 1 ? depth >> 2 : 0;
    if (left > 0) {
        __asm__ volatile("1:\n"
                         "vldmia %[x]!, {s0-s3}\n"
                         "vldmia %[y]!, {s4-s7}\n" MUL(0, 4) MUL(1, 5) MUL(2, 6) MUL(3, 7) ADD(s, 0) ADD(s, 1) ADD(s, 2)
                             ADD(s, 3) "subs %[left], %[left], #1\n"
                         "bne 1b\n"
                         : [x] "+r"(x), [y] "+r"(y), [left] "+r"(left), [s] "+t"(sum)
                         :
                         : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "cc", "memory");
        depth &= 3;
    }
#endif
    for (; depth > 0; depth--, x += S.common_step, y += S.own_step) {
        sum = sum + cortado_f32_mul(*x, *y);
    }
    return sum;
}

/* `count` sums, one behind the other. */
static float *sums(sums_t S, int32_t depth, int32_t count, float *out)
{
    for (; count >= 4; count -= 4, S.own += 4 * S.apart, out += 4) {
        four(S, depth, out);
    }
    for (; count > 0; count--, S.own += S.apart) {
        *out++ = cortado_f32_canonical(one(S, depth));
    }
    return out;
}

void cortado_matmul_f32(const cortado_matmul_f32_t *L, const float *a, const float *b, float *out)
{
    if (L->batches * L->rows * L->columns == 1) {
        const sums_t single = {a, b, 1, 1, 0};
        *out = cortado_f32_canonical(one(single, L->depth));
        return;
    }
    for (int32_t batch = 0; batch < L->batches; batch++, b += L->depth * L->columns) {
        if (L->columns == 1) { /* rows of a, which all meet the one column */
            const int32_t done = rows_by_fours(a, b, L->depth, L->rows, out);
            out += done;
            if (done < L->rows) {
                const sums_t rows = {b, a + done * L->depth, 1, 1, L->depth};
                out = sums(rows, L->depth, L->rows - done, out);
            }
            a += L->depth * L->rows;
            continue;
        }
        for (int32_t row = 0; row < L->rows; row++, a += L->depth) {
            const sums_t columns = {a, b, 1, L->columns, 1};
            out = sums(columns, L->depth, L->columns, out);
        }
    }
}
