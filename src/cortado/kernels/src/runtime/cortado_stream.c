/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop over a stream of rows. Every step reads at least one row for each that it makes, so a row that is pushed
 * gives each step one row more or none, and one pass over the steps in their order makes all of them.
 */
#include "cortado_stream.h"

#include "cortado_watch.h"

static uint32_t wrapped(uint32_t slot, uint32_t ring)
{
    while (slot >= ring) {
        slot -= ring;
    }
    return slot;
}

/* True when every input row that output row y of this step needs has been made. */
static int ready(const cortado_port_t *port, uint32_t ports, const cortado_stream_state_t *state, uint32_t y)
{
    for (; ports > 0; ports--, port++) {
        if (port->producer < CORTADO_CONSTANT) {
            const int32_t need = (int32_t)(y * port->stride) + port->lead;
            if ((((uint32_t)state[port->producer].made - (uint32_t)need) & 0x7FFFu) >= 0x4000u) {
                return 0;
            }
        }
    }
    return 1;
}

/* Another row of a step is there. */
static void count_row(const cortado_step_t *step, cortado_stream_state_t *state)
{
    const uint32_t made = state->made + 1u;
    state->made = (uint16_t)(made == 0xC000u ? 0x4000u : made);
    state->out_slot = (uint16_t)wrapped(state->out_slot + 1u, step->out_ring);
}

/* The rows that a port gives to the next output row; the window then moves on. */
static const int8_t **gather(const cortado_port_t *port, uint16_t *first, const uint8_t *arena, const int8_t **rows)
{
    if (port->producer == CORTADO_CONSTANT) {
        *rows = (const int8_t *)port->at.constant;
        return rows + 1;
    }
    uint32_t slot = *first;
    for (uint32_t k = port->taps; k > 0; k--) {
        *rows++ = (const int8_t *)(arena + port->at.offset + slot * port->row_bytes);
        slot = wrapped(slot + port->dilation, port->ring);
    }
    *first = (uint16_t)wrapped(*first + port->stride, port->ring);
    return rows;
}

static void run_row(const cortado_program_t *program, const cortado_step_t *step, cortado_stream_state_t *state,
                    uint8_t *arena, const int8_t **rows)
{
    const cortado_port_t *port = program->ports + step->port;
    const int8_t **next = rows;
    for (uint32_t i = 0; i < step->ports; i++, port++) {
        next = gather(port, &state->slot[i], arena, next);
    }
    uint8_t *out = arena + step->out_offset + state->out_slot * step->out_row_bytes;
    YIELDED();
    PROFILED(program, step);
    step->call(step->layer, rows, (int8_t *)out, step->n, arena + step->scratch_offset, (int32_t)state->made);
    TRACED(out, step->out_row_bytes);
    TRACED_ALSO(program->ports + step->port, step->ports, rows, 1u);
    COUNTED(program, step, out, rows, 1u, 1);
    count_row(step, state);
}

void cortado_reset_stream(const cortado_program_t *program, const cortado_stage_t *stage, uint8_t *arena,
                          cortado_stream_state_t *state)
{
    const cortado_step_t *step = program->steps + stage->first;
    PAINT(program, 0u, arena);
    CHECK_SCRATCH(step, stage->steps);
    (void)arena;
    for (uint32_t s = stage->steps; s > 0; s--, step++, state++) {
        const cortado_port_t *port = program->ports + step->port;
        state->made = 0;
        state->out_slot = 0;
        for (uint32_t i = 0; i < step->ports; i++, port++) {
            const uint32_t span = (port->taps - 1u) * port->dilation + 1u;
            state->slot[i] = (uint16_t)wrapped((uint32_t)port->lead - span, port->ring);
        }
    }
}

int cortado_push_stream(const cortado_program_t *program, const cortado_stage_t *stage, uint8_t *arena,
                        cortado_stream_state_t *state, const int8_t **rows)
{
    const cortado_step_t *step = program->steps + stage->first;
    cortado_stream_state_t *at = state;
    int made = 0;
    CHECK(program, step, 0u, arena); /* includes the input that the caller wrote */
    PROFILED(program, step);
    TRACED(arena + step->out_offset + at->out_slot * step->out_row_bytes, step->out_row_bytes);
    COUNTED(program, step, arena + step->out_offset + at->out_slot * step->out_row_bytes, NULL, 1u, 1);
    count_row(step, at);
    for (uint32_t s = stage->steps; s > 1; s--) {
        step++;
        at++;
        made = ready(program->ports + step->port, step->ports, state, at->made);
        if (made != 0) {
            run_row(program, step, at, arena, rows);
            CHECK(program, step, 0u, arena);
        }
    }
    return made;
}
