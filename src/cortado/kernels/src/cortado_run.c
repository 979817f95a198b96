/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop that walks a network's tables. It decides nothing that the compiler has not: which row of which step comes
 * next follows from the rows that are there, so every run makes the same calls in the same order.
 */
#include "cortado_run.h"
#include "cortado_watch.h"

/* True when every input row that output row y of this step needs has been made. */
static int ready(const cortado_step_t *step, const cortado_port_t *port, const cortado_state_t *state, uint32_t y)
{
    for (const cortado_port_t *end = port + step->ports; port != end; port++) {
        if (port->producer < CORTADO_CONSTANT) {
            int32_t need = (int32_t)((y >> port->repeat) * port->stride) + port->lead;
            if (need > (int32_t)port->height) {
                need = (int32_t)port->height;
            }
            if ((int32_t)state[port->producer].made < need) {
                return 0;
            }
        }
    }
    return 1;
}

/* The rows one port gives to the output row whose window starts at `row`; a row outside the image is NULL. */
static const int8_t **gather(const cortado_port_t *port, uint32_t slot, int32_t row, const uint8_t *base,
                             const int8_t **rows)
{
    for (uint32_t k = 0; k < port->taps; k++) {
        if (row >= 0 && row < (int32_t)port->height) {
            *rows++ = (const int8_t *)(base + slot * port->row_bytes);
        } else {
            *rows++ = NULL;
        }
        row += port->dilation;
        slot += port->dilation;
        while (slot >= port->ring) {
            slot -= port->ring;
        }
    }
    return rows;
}

/* Makes the next output row of one step, or as many as it makes together. */
static void run_row(const cortado_program_t *program, const cortado_step_t *step, const cortado_port_t *port,
                    cortado_state_t *state, uint32_t image, uint8_t *arena, const int8_t **rows)
{
    const int8_t **next = rows;
    const uint32_t y = state->y, left = step->rows - y;
    const uint32_t count = step->group == 0 ? 1u : step->group < left ? step->group : left;
    for (uint32_t i = 0; i < step->ports; i++, port++) {
        const uint8_t *base = arena + port->at.offset;
        if (port->producer == CORTADO_CONSTANT) {
            base = (const uint8_t *)port->at.constant;
        }
        if (image != 0) {
            base += image * port->height * port->row_bytes;
        }
        const uint32_t at = y >> port->repeat;
        next = gather(port, state->slot[i], (int32_t)(at * port->stride) - (int32_t)port->pad, base, next);
        uint32_t slot = state->slot[i] + (((y + count) >> port->repeat) - at) * port->stride;
        while (slot >= port->ring) {
            slot -= port->ring;
        }
        state->slot[i] = (uint16_t)slot;
    }
    uint8_t *out = arena + step->out_offset;
    if (image != 0) {
        out += image * (step->group == 0 ? 1u : step->rows) * step->out_row_bytes;
    }
    if (step->group != 0) {
        out += state->out_slot * step->out_row_bytes;
    }
    PROFILED(program, step);
    step->call(step->layer, rows, (int8_t *)out, step->n * (int32_t)count, arena + step->scratch_offset, (int32_t)y);
    TRACED(out, step->out_row_bytes * count);
    state->y = (uint16_t)(y + count);
    state->made = step->group != 0 ? state->y : state->y == step->rows;
    const uint32_t slot = state->out_slot + count;
    state->out_slot = (uint16_t)(slot == step->out_ring ? 0u : slot);
}

/* Every step at its first row; row -pad lies `pad` slots before slot 0 of its ring. */
static void reset(const cortado_step_t *step, const cortado_port_t *port, cortado_state_t *state, uint32_t steps)
{
    for (; steps > 0; steps--, step++, state++) {
        state->y = 0;
        state->made = 0;
        state->out_slot = 0;
        for (uint32_t i = 0; i < step->ports; i++, port++) {
            uint32_t slot = 0;
            while (slot < port->pad) {
                slot += port->ring;
            }
            state->slot[i] = (uint16_t)(slot - port->pad);
        }
    }
}

/* Makes rows until none can be made. */
static void advance(const cortado_program_t *program, const cortado_stage_t *stage, uint32_t number, uint32_t image,
                    uint8_t *arena, cortado_state_t *state, const int8_t **rows)
{
    const cortado_step_t *steps = program->steps + stage->first;
    uint32_t s = stage->steps;
    (void)number;
    while (s > 0) {
        s--;
        const cortado_step_t *step = &steps[s];
        const cortado_port_t *port = program->ports + step->port;
        if (state[s].y < step->rows && ready(step, port, state, state[s].y)) {
            run_row(program, step, port, &state[s], image, arena, rows);
            CHECK(program, step, number, arena);
            s = stage->steps; /* whatever became possible behind it goes first */
        }
    }
}

void cortado_run_stage(const cortado_program_t *program, const cortado_stage_t *stage, uint32_t number,
                       uint8_t *arena, cortado_state_t *state, const int8_t **rows)
{
    const cortado_step_t *steps = program->steps + stage->first;
    PAINT(program, number, arena);
    CHECK_SCRATCH(steps, stage->steps);
    for (uint32_t image = 0; image < stage->images; image++) {
        reset(steps, program->ports + steps->port, state, stage->steps);
        advance(program, stage, number, image, arena, state, rows);
    }
}

void cortado_reset_stage(const cortado_program_t *program, const cortado_stage_t *stage, uint32_t number,
                         uint8_t *arena, cortado_state_t *state)
{
    const cortado_step_t *steps = program->steps + stage->first;
    PAINT(program, number, arena);
    CHECK_SCRATCH(steps, stage->steps);
    (void)arena;
    reset(steps, program->ports + steps->port, state, stage->steps);
}

/* The first step has made the row that the caller wrote. */
static void take_row(const cortado_program_t *program, const cortado_step_t *step, uint8_t *arena,
                     cortado_state_t *state)
{
    PROFILED(program, step);
    TRACED(arena + step->out_offset + state->out_slot * step->out_row_bytes, step->out_row_bytes);
    (void)arena;
    state->made = ++state->y;
    const uint32_t slot = state->out_slot + 1u;
    state->out_slot = (uint16_t)(slot == step->out_ring ? 0u : slot);
}

void cortado_push_row(const cortado_program_t *program, const cortado_stage_t *stage, uint32_t number, uint8_t *arena,
                      cortado_state_t *state, const int8_t **rows)
{
    const cortado_step_t *first = program->steps + stage->first;
    CHECK(program, first, number, arena); /* of what the caller wrote, too */
    take_row(program, first, arena, state);
    advance(program, stage, number, 0, arena, state, rows);
}
