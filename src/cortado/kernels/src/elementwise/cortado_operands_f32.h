/* SPDX-License-Identifier: Apache-2.0
 *
 * Two operands of float32, of which one may begin anew again and again. Internal: not part of the public interface.
 */
#ifndef CORTADO_OPERANDS_F32_H
#define CORTADO_OPERANDS_F32_H

#include "cortado_float.h"

/* A span over which each operand is one number, or goes from element to element. */
typedef struct {
    const float *a, *b;
    int32_t a_step, b_step;
} cortado_operands_f32_t;

/* An expression of the elements x and y of each operand, at every place of a span. */
#define CORTADO_EACH_F32(S, out, n, expression)                                                \
    do {                                                                                       \
        const float *a = (S).a, *b = (S).b;                                                    \
        for (float *at = (out), *const end = at + (n); at < end; at++) {                       \
            const float x = *a, y = *b;                                                        \
            (void)y;                                                                           \
            *at = (expression);                                                                \
            a += (S).a_step;                                                                   \
            b += (S).b_step;                                                                   \
            CORTADO_STAY_A_LOOP;                                                               \
        }                                                                                      \
    } while (0)

/* What makes a span. */
typedef void (*cortado_each_f32_t)(const cortado_calculate_f32_t *L, const cortado_operands_f32_t S, float *out,
                                   int32_t n);

/* Calls `each` for every span of a row. */
static inline void cortado_spans_f32(const cortado_calculate_f32_t *L, const float *a, const float *b, float *out,
                                     int32_t n, cortado_each_f32_t each)
{
    int32_t at_a = 0, at_b = 0;
    a = a == NULL ? &L->number : a;
    b = b == NULL ? &L->number : b;
    const int32_t a_step = L->a_period != 1, b_step = L->b_period != 1;
    while (n > 0) {
        const int32_t left_a = a_step != 0 ? L->a_period - at_a : n, left_b = b_step != 0 ? L->b_period - at_b : n;
        const int32_t span = cortado_min(n, cortado_min(left_a, left_b));
        const cortado_operands_f32_t S = {a + at_a, b + at_b, a_step, b_step};
        each(L, S, out, span);
        at_a = span == left_a ? 0 : at_a + span * a_step;
        at_b = span == left_b ? 0 : at_b + span * b_step;
        out += span;
        n -= span;
    }
}

#endif /* CORTADO_OPERANDS_F32_H */
