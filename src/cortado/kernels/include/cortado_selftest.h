/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the first layer of a network whose output is not the expected one, in the build that ships: the loop over rows
 * is given a copy of a stage's steps whose kernels are called by a function that looks at each row they leave behind. A
 * layer's output need never lie whole in memory.
 */
#ifndef CORTADO_SELFTEST_H
#define CORTADO_SELFTEST_H

#include "cortado_run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The parts of MODEL.c that its self-test reads. */
typedef struct {
    const cortado_program_t *program;
    const cortado_stage_t *stages;
    uint32_t stage_count;
} cortado_network_t;

/* CRC-32 (that of zlib) of the rows that a step makes, one after the other: those of an image from row `from` on, up to
 * row `end`, which does not count. */
typedef struct {
    uint32_t crc;
    uint16_t from, end;
} cortado_digest_t;

/* A step that is watched. */
typedef struct {
    const cortado_step_t *step;
    uint32_t crc;
    uint16_t from, end;
} cortado_watched_t;

/* A stage that is watched; `steps` and `watched` have room for those of the longest stage. */
typedef struct {
    cortado_program_t program;
    cortado_stage_t stage;
    cortado_step_t *steps;
    cortado_watched_t *watched;
} cortado_selftest_t;

/* Makes test->program and test->stage, to be run in the place of the network's own. */
void cortado_selftest_watch(cortado_selftest_t *test, const cortado_network_t *network, uint32_t stage,
                            const cortado_digest_t *expected);

/* After the stage has run: 0, or the first of the network's steps in it, counted from 1, that made something else. */
int cortado_selftest_differs(const cortado_selftest_t *test, const cortado_stage_t *stage,
                             const cortado_digest_t *expected);

/* The CRC-32 of bytes behind those whose CRC-32 is `crc`, 0 where there are none. */
uint32_t cortado_selftest_crc32(uint32_t crc, const uint8_t *data, uint32_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* CORTADO_SELFTEST_H */
