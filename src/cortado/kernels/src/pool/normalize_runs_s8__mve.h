/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of normalization with vector instructions (MVE), over runs of bytes. Internal. See
 * normalize_runs_s8__mve.S.
 */
#ifndef NORMALIZE_RUNS_S8__MVE_H
#define NORMALIZE_RUNS_S8__MVE_H

/* Members of cortado_normalize_run_t, for the assembly. */
#define RUN_STEP 0    /* minus_middle is read with it */
#define RUN_ROOT 8    /* right is read with it */
#define RUN_LOW 16    /* high is read with it */
#define RUN_SCALE 24  /* offset is read with it */
#define RUN_SEVERAL 32

#if !defined(__ASSEMBLER__)
#include "cortado.h"

typedef struct {
    uint32_t step, minus_middle; /* the deviation is q * step + minus_middle */
    int32_t root;
    int32_t right; /* the shift of an output, negative: to the right */
    int32_t low, high;
    const int32_t *scale, *offset;
    int32_t several; /* whether each element has its own scale and offset, or all have one */
} cortado_normalize_run_t;

CORTADO_AT(cortado_normalize_run_t, step, RUN_STEP);
CORTADO_AT(cortado_normalize_run_t, minus_middle, RUN_STEP + 4);
CORTADO_AT(cortado_normalize_run_t, root, RUN_ROOT);
CORTADO_AT(cortado_normalize_run_t, right, RUN_ROOT + 4);
CORTADO_AT(cortado_normalize_run_t, low, RUN_LOW);
CORTADO_AT(cortado_normalize_run_t, high, RUN_LOW + 4);
CORTADO_AT(cortado_normalize_run_t, scale, RUN_SCALE);
CORTADO_AT(cortado_normalize_run_t, offset, RUN_SCALE + 4);
CORTADO_AT(cortado_normalize_run_t, several, RUN_SEVERAL);

/* Adds n bytes, at most 2^16, to sums[0] and their squares to sums[1]. */
void cortado_normalize_sums_s8__mve(const int8_t *in, int32_t n, int32_t sums[2]);
void cortado_normalize_run_s8__mve(const cortado_normalize_run_t *R, const int8_t *in, int8_t *out, int32_t n);

#endif
#endif /* NORMALIZE_RUNS_S8__MVE_H */
