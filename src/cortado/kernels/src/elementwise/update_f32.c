/* SPDX-License-Identifier: Apache-2.0
 *
 * A tensor times a number, and a product of matrices added to it, in float32; another tensor that this moves: a step of
 * gradient descent.
 *
 * Tile: 8 elements with a float unit, 1 elsewhere. Scratch: none.
 */
#include "cortado_float.h"

/* Where the operands and results of a row lie. */
typedef struct {
    const float *self, *rows, *other;
    float *out, *moved;
} row_t;

static void element(const cortado_update_f32_t *L, const row_t *R, const float *factor, int32_t i)
{
    const float *x = R->rows + i;
    const float other = R->other == NULL ? 0.0f : R->other[i];
    float sum = cortado_f32_mul(*factor, *x);
    for (int32_t k = L->depth; k > 1; k--) {
        x += L->columns;
        sum = sum + cortado_f32_mul(*++factor, *x);
    }
    if (R->other != NULL) {
        sum = sum + cortado_f32_mul(other, L->decay);
    }
    const float made = cortado_result(cortado_f32_mul(R->self[i], L->weight) + sum);
    if (R->out != NULL) {
        R->out[i] = made;
    }
    if (R->moved != NULL) {
        const float step = cortado_f32_mul(made, L->rate);
        R->moved[i] = cortado_result(R->other == NULL ? step : other + step);
    }
}

#if defined(CORTADO_ONE_NAN)

/* A list of words costs a cycle more than its words. Sums are in s0-s7, the other tensor in s8-s15. */
#define MUL(to, a, b) "vmul.f32 s" #to ", s" #a ", " b "\n"
#define MUL8(a, b, c, d, e, f, g, h, x) \
    MUL(a, a, x) MUL(b, b, x) MUL(c, c, x) MUL(d, d, x) MUL(e, e, x) MUL(f, f, x) MUL(g, g, x) MUL(h, h, x)
#define ADD(to, a) "vadd.f32 s" #to ", s" #to ", s" #a "\n"
#define ADD8(a, b, c, d, e, f, g, h) ADD(0, a) ADD(1, b) ADD(2, c) ADD(3, d) ADD(4, e) ADD(5, f) ADD(6, g) ADD(7, h)

/* Rows one after the other: the factor of each in s24, the rows that it is of from their beginning. */
#define ROWS "2:\nvldmia %[factor]!, {s24}\nlsr %[left], %[bytes], #5\n1:\n"
#define PRODUCTS "vldmia %[rows]!, {s0-s7}\n" MUL8(0, 1, 2, 3, 4, 5, 6, 7, "s24")
#define DECAY                                                                                                        \
    "vldmia %[other]!, {s8-s15}\n" MUL(16, 8, "%[decay]") MUL(17, 9, "%[decay]") MUL(18, 10, "%[decay]")             \
        MUL(19, 11, "%[decay]") MUL(20, 12, "%[decay]") MUL(21, 13, "%[decay]") MUL(22, 14, "%[decay]")              \
            MUL(23, 15, "%[decay]") ADD8(16, 17, 18, 19, 20, 21, 22, 23)
#define SELF                                                                                                         \
    "vldmia %[self]!, {s16-s23}\n" MUL8(16, 17, 18, 19, 20, 21, 22, 23, "%[weight]")                                 \
        ADD8(16, 17, 18, 19, 20, 21, 22, 23) "vstmia %[out]!, {s0-s7}\n"
#define STEP                                                                                                         \
    MUL8(0, 1, 2, 3, 4, 5, 6, 7, "%[rate]") ADD8(8, 9, 10, 11, 12, 13, 14, 15) "vstmia %[moved]!, {s0-s7}\n"
#define AGAIN                                                                                                        \
    "subs %[left], %[left], #1\nbne 1b\n"                                                                            \
    "sub %[rows], %[rows], %[bytes]\nsubs %[count], %[count], #1\nbne 2b\n"
#define REGISTERS                                                                                                    \
    "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13", "s14", "s15", "s16",     \
        "s17", "s18", "s19", "s20", "s21", "s22", "s23", "s24", "cc", "memory"

/* Eights of elements of `count` rows whose sums are one product each; returns how many elements of a row they are. More
 * than one row has nothing but eights. */
static int32_t eights(const cortado_update_f32_t *L, const row_t *R, const float *factor, int32_t count)
{
    const float *self = R->self, *rows = R->rows, *other = R->other;
    float *out = R->out, *moved = R->moved;
    const int32_t bytes = (L->columns & ~7) * 4;
    int32_t left;
    if (bytes == 0 || out == NULL || (other == NULL && (moved != NULL || L->weight != 1.0f))) {
        return 0;
    }
    if (moved != NULL) {
        __asm__ volatile(ROWS PRODUCTS DECAY SELF STEP AGAIN
                         : [self] "+r"(self), [rows] "+r"(rows), [other] "+r"(other), [out] "+r"(out),
                           [moved] "+r"(moved), [factor] "+r"(factor), [count] "+r"(count), [left] "=&r"(left)
                         : [bytes] "r"(bytes), [weight] "t"(L->weight), [decay] "t"(L->decay), [rate] "t"(L->rate)
                         : REGISTERS);
    } else if (other != NULL) {
        __asm__ volatile(ROWS PRODUCTS DECAY SELF AGAIN
                         : [self] "+r"(self), [rows] "+r"(rows), [other] "+r"(other), [out] "+r"(out),
                           [factor] "+r"(factor), [count] "+r"(count), [left] "=&r"(left)
                         : [bytes] "r"(bytes), [weight] "t"(L->weight), [decay] "t"(L->decay)
                         : REGISTERS);
    } else {
        __asm__ volatile(ROWS PRODUCTS "vldmia %[self]!, {s8-s15}\n" ADD8(8, 9, 10, 11, 12, 13, 14, 15)
                         "vstmia %[out]!, {s0-s7}\n" AGAIN
                         : [self] "+r"(self), [rows] "+r"(rows), [out] "+r"(out), [factor] "+r"(factor),
                           [count] "+r"(count), [left] "=&r"(left)
                         : [bytes] "r"(bytes)
                         : REGISTERS);
    }
    return bytes / 4;
}
#else
static int32_t eights(const cortado_update_f32_t *L, const row_t *R, const float *factor, int32_t count)
{
    (void)L, (void)R, (void)factor, (void)count;
    return 0;
}
#endif

static float *behind(float *row, int32_t columns) { return row == NULL ? NULL : row + columns; }

void cortado_update_f32(const cortado_update_f32_t *L, const float *self, const float *factor, const float *rows,
                        const float *other, float *out, float *moved)
{
    const uint32_t before = cortado_one_nan();
    const int32_t together = L->depth == 1 && (L->columns & 7) == 0 ? L->rows : 1;
    row_t R = {self, rows, other, out, moved};
    for (int32_t row = 0; row < L->rows; row++, factor += L->depth) {
        const int32_t done = L->depth == 1 ? eights(L, &R, factor, together) : 0;
        if (done == L->columns && together > 1) {
            break;
        }
        for (int32_t i = done; i < L->columns; i++) {
            element(L, &R, factor, i);
        }
        R.self += L->columns;
        R.other = R.other == NULL ? NULL : R.other + L->columns;
        R.out = behind(R.out, L->columns);
        R.moved = behind(R.moved, L->columns);
    }
    cortado_any_nan(before);
}
