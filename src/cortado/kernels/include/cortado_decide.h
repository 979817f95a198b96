/* SPDX-License-Identifier: Apache-2.0
 *
 * When the scores of a classifier, one output after the other, become a decision: the class whose sum over the last
 * outputs is the largest, if it is large enough and was not decided for a short while ago.
 */
#ifndef CORTADO_DECIDE_H
#define CORTADO_DECIDE_H

#include <stdint.h>

#include "cortado_endian.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CORTADO_NO_DECISION (-1)

typedef struct {
    const int32_t *thresholds; /* [classes]: least sum of a class, in float32 its bits; INT32_MAX: never decided for */
    const uint16_t *holdoffs;  /* [classes]: outputs after a decision at which there is no other for that class */
    uint16_t classes;
    uint16_t smooth; /* outputs in a sum */
    uint16_t bytes;  /* per score: 1 or 2 for codes, 4 for float32 */
} cortado_decision_t;

/* `kept` is what lasts from output to output, aligned to 4: the sums and the decision, 4 * (classes + 1) bytes; next
 * the place in the ring, the count of outputs and what is left of the hold-offs, 2 * (2 + classes), in float32 up to
 * a multiple of 4; then the ring, bytes * smooth * classes. */
void cortado_reset_decision(const cortado_decision_t *decision, void *kept);

/* Takes the scores of one more output: codes, or float32. */
void cortado_decide(const cortado_decision_t *decision, void *kept, const void *scores);
void cortado_decide_f32(const cortado_decision_t *decision, void *kept, const void *scores);

/* What both do: the numbers of 16 bits in front of the ring; the oldest scores in it; newer ones in their place; and
 * what comes of the best class, whose sum reached its threshold or did not. */
static inline uint32_t cortado_decision_counts(const cortado_decision_t *decision)
{
    const uint32_t counts = 2u + decision->classes;
    return decision->bytes == 4 ? (counts + 1u) & ~1u : counts;
}
void *cortado_decision_place(const cortado_decision_t *decision, void *kept);
void cortado_decision_take(const cortado_decision_t *decision, void *kept, const void *scores);
void cortado_decision_end(const cortado_decision_t *decision, void *kept, uint32_t best, int reached);

/* The class that was decided for since the last call, the latest of several; CORTADO_NO_DECISION if there is none. */
int cortado_decided(const cortado_decision_t *decision, void *kept);

#ifdef __cplusplus
}
#endif

#endif /* CORTADO_DECIDE_H */
