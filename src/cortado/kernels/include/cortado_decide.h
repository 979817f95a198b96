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
    const int32_t *thresholds; /* [classes]: the least sum of a class; INT32_MAX: it is never decided for */
    const uint16_t *holdoffs;  /* [classes]: outputs after a decision at which there is no other for that class */
    uint16_t classes;
    uint16_t smooth; /* outputs in a sum */
    uint16_t bytes;  /* of a score: 1 or 2 */
} cortado_decision_t;

/* `kept` is what lasts from output to output, aligned to 4: the sums and the decision, 4 * (classes + 1) bytes; next
 * the place in the ring, the count of outputs and what is left of the hold-offs, 2 * (2 + classes); then the ring,
 * bytes * smooth * classes. */
void cortado_reset_decision(const cortado_decision_t *decision, void *kept);

/* Takes the scores of one more output. */
void cortado_decide(const cortado_decision_t *decision, void *kept, const void *scores);

/* The class that was decided for since the last call, the latest of several; CORTADO_NO_DECISION if there is none. */
int cortado_decided(const cortado_decision_t *decision, void *kept);

#ifdef __cplusplus
}
#endif

#endif /* CORTADO_DECIDE_H */
