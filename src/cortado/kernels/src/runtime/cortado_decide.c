/* SPDX-License-Identifier: Apache-2.0 */
#include "cortado_decide.h"

#include <string.h>

#include "cortado_copy.h"

static int32_t *sums_of(void *kept)
{
    return (int32_t *)kept;
}

static int32_t *decided_of(const cortado_decision_t *decision, void *kept)
{
    return sums_of(kept) + decision->classes;
}

/* The next slot of the ring, the number of outputs so far (at most those summed), and the hold-offs of the classes. */
static uint16_t *counts_of(const cortado_decision_t *decision, void *kept)
{
    return (uint16_t *)(void *)(decided_of(decision, kept) + 1);
}

static int32_t score_of(const cortado_decision_t *decision, const void *scores, uint32_t i)
{
    return decision->bytes == 1 ? ((const int8_t *)scores)[i] : ((const int16_t *)scores)[i];
}

void cortado_reset_decision(const cortado_decision_t *decision, void *kept)
{
    const uint32_t classes = decision->classes;
    memset(kept, 0,
           4u * (classes + 1u) + 2u * cortado_decision_counts(decision) +
               (uint32_t)decision->bytes * decision->smooth * classes);
    *decided_of(decision, kept) = CORTADO_NO_DECISION;
}

void *cortado_decision_place(const cortado_decision_t *decision, void *kept)
{
    uint16_t *const counts = counts_of(decision, kept);
    return (uint8_t *)(counts + cortado_decision_counts(decision)) +
           (uint32_t)counts[0] * decision->classes * decision->bytes;
}

void cortado_decision_take(const cortado_decision_t *decision, void *kept, const void *scores)
{
    uint16_t *const counts = counts_of(decision, kept);
    cortado_copy(cortado_decision_place(decision, kept), scores, (uint32_t)decision->classes * decision->bytes);
    counts[0] = (uint16_t)(counts[0] + 1u == decision->smooth ? 0u : counts[0] + 1u);
    counts[1] = (uint16_t)(counts[1] < decision->smooth ? counts[1] + 1u : counts[1]);
}

void cortado_decision_end(const cortado_decision_t *decision, void *kept, uint32_t best, int reached)
{
    const uint32_t classes = decision->classes;
    uint16_t *const counts = counts_of(decision, kept), *const left = counts + 2;
    const int is_free = left[best] == 0;
    for (uint32_t c = 0; c < classes; c++) {
        left[c] = (uint16_t)(left[c] > 0 ? left[c] - 1u : 0u);
    }
    if (is_free && counts[1] == decision->smooth && reached) {
        left[best] = decision->holdoffs[best];
        *decided_of(decision, kept) = (int32_t)best;
    }
}

void cortado_decide(const cortado_decision_t *decision, void *kept, const void *scores)
{
    int32_t *const sums = sums_of(kept);
    const void *const oldest = cortado_decision_place(decision, kept); /* 0 before the ring is full */
    uint32_t best = 0;
    for (uint32_t c = 0; c < decision->classes; c++) {
        sums[c] += score_of(decision, scores, c) - score_of(decision, oldest, c);
        if (sums[c] > sums[best]) {
            best = c;
        }
    }
    cortado_decision_take(decision, kept, scores);
    cortado_decision_end(decision, kept, best, sums[best] >= decision->thresholds[best]);
}

int cortado_decided(const cortado_decision_t *decision, void *kept)
{
    int32_t *const decided = decided_of(decision, kept);
    const int found = (int)*decided;
    *decided = CORTADO_NO_DECISION;
    return found;
}
