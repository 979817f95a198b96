/* SPDX-License-Identifier: Apache-2.0
 *
 * The decision of scores in float32. Their sums are made anew with each output, from the oldest to the newest: a sum
 * that goes on keeps what rounding made of scores that are long gone.
 */
#include "cortado_decide.h"
#include "cortado_float.h"

void cortado_decide_f32(const cortado_decision_t *decision, void *kept, const void *scores)
{
    const uint32_t classes = decision->classes;
    cortado_decision_take(decision, kept, scores);
    const float *const oldest = (const float *)cortado_decision_place(decision, kept);
    const float *const ring =
        (const float *)(const void *)((const int32_t *)kept + classes + 1 + cortado_decision_counts(decision) / 2u);
    const float *const end = ring + (uint32_t)decision->smooth * classes;
    float largest = -cortado_f32_infinity();
    uint32_t best = 0;
    for (uint32_t c = 0; c < classes; c++) {
        float sum = 0.0f;
        for (const float *at = oldest + c; at < end; at += classes) {
            sum += *at;
        }
        for (const float *at = ring + c; at < oldest; at += classes) {
            sum += *at;
        }
        if (sum > largest) { /* NaN never is */
            largest = sum;
            best = c;
        }
    }
    const float least = cortado_f32_from((uint32_t)decision->thresholds[best]); /* NaN: no sum is at it */
    cortado_decision_end(decision, kept, best, largest >= least);
}
