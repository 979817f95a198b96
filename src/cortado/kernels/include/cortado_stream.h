/* SPDX-License-Identifier: Apache-2.0
 *
 * How a network runs on an endless stream of rows: one stage, and rings that live from row to row.
 *
 * The tables are those of cortado_run.h. No row lies outside an image, so `height`, `pad`, `rows` and `group` mean
 * nothing: output row y reads rows y * stride + lead - span + k * dilation, where span = (taps - 1) * dilation + 1.
 */
#ifndef CORTADO_STREAM_H
#define CORTADO_STREAM_H

#include "cortado_run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a step stands: the rows it made, and the ring slots of its next row and of its ports' first rows. The count
 * runs up to 0xC000 and then goes back to 0x4000, again and again: it is compared with others modulo 0x8000, and 0 is
 * the first row after a reset and no other. */
typedef struct {
    uint16_t made;
    uint16_t out_slot;
    uint16_t slot[CORTADO_MAX_PORTS];
} cortado_stream_state_t;

#define cortado_reset_stream CORTADO_VERSIONED(cortado_reset_stream)
#define cortado_push_stream CORTADO_VERSIONED(cortado_push_stream)

/* `state` holds one entry per step; it and the arena are kept from row to row. */
void cortado_reset_stream(const cortado_program_t *program, const cortado_stage_t *stage, uint8_t *arena,
                          cortado_stream_state_t *state);

/* Takes the row in slot state->out_slot of the first step's ring, and makes what has become possible: of each step one
 * row or none. Returns whether the last step made one. */
int cortado_push_stream(const cortado_program_t *program, const cortado_stage_t *stage, uint8_t *arena,
                        cortado_stream_state_t *state, const int8_t **rows);

#ifdef __cplusplus
}
#endif

#endif /* CORTADO_STREAM_H */
