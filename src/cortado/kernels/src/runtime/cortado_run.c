/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop that walks a network's tables. It decides nothing that the compiler has not: which row of which step comes
 * next follows from the rows that are there, so every run makes the same calls in the same order.
 */
#include "cortado_run.h"
#include "cortado_math.h"
#include "cortado_watch.h"

/* A stage while it runs, and the call of a kernel that is made ready. */
typedef struct {
    arena_t arena;
    uint32_t image;
    uint32_t y, after;          /* the call's output row, and the one after those it makes */
    const int8_t **rows, **end; /* its input rows so far */
    const cortado_program_t *program;
} turn_t;

/* The rows of an operand that must have been made for the output row that reads from row `at` on. */
static inline uint16_t rows_needed(const cortado_port_t *port, uint32_t at)
{
    const int32_t rows = (int32_t)at + port->lead;
    return (uint16_t)(rows < 0 ? 0 : rows);
}

/* Whether all operands of a step have the rows that output row y needs. */
CORTADO_ONCE static int ready(const cortado_port_t *port, uint32_t ports, const cortado_state_t *state, uint32_t y)
{
    for (; ports > 0; ports--, port++) {
        const uint32_t at = (y >> port->repeat) * port->stride;
        if (port->producer < CORTADO_CONSTANT && state[port->producer].made < rows_needed(port, at)) {
            return 0;
        }
    }
    return 1;
}

/* Sets the rows of a port outside the image to NULL; a row above it has wrapped around to a large number. */
CORTADO_ONCE static void row_edges(const int8_t **rows, uint32_t first, const cortado_port_t *port)
{
    for (uint32_t taps = port->taps; taps > 0; taps--, rows++, first += port->dilation) {
        if (first >= port->height) {
            *rows = NULL;
        }
    }
}

/* Adds the rows of a port to those of the call, and moves the slot of the first of them on to that of the next call. */
CORTADO_ONCE static void row_window(turn_t *turn, const cortado_port_t *port, uint16_t *first, cortado_state_t *state)
{
    const uint32_t at = (turn->y >> port->repeat) * port->stride;
    const uint32_t next = (turn->after >> port->repeat) * port->stride;
    const uint32_t ring = port->ring, bytes = port->row_bytes, dilation = port->dilation;
    uint32_t slot = *first, moved = slot + next - at;
    while (moved >= ring) {
        moved -= ring;
    }
    *first = (uint16_t)moved;
    const uint8_t *base = PLACE(turn->arena, port->at.offset);
    if (port->producer < CORTADO_CONSTANT) {
        state->need = rows_needed(port, next);
    } else {
        if (port->producer == CORTADO_CONSTANT) {
            base = port->at.constant;
        }
        base += turn->image * port->height * bytes;
    }
    const int8_t **end = turn->end;
    for (uint32_t taps = port->taps; taps > 0; taps--) {
        *end++ = (const int8_t *)(base + slot * bytes);
        slot += dilation;
        while (slot >= ring) {
            slot -= ring;
        }
    }
    if (at - port->pad >= port->height || (int32_t)at + port->lead > (int32_t)port->height) {
        row_edges(turn->end, at - port->pad, port);
    }
    turn->end = end;
}

/* Makes the next output row of one step, or as many as it makes together. */
CORTADO_ONCE static void run_row(turn_t *turn, const cortado_step_t *step, cortado_state_t *state)
{
    const cortado_port_t *port = turn->program->ports + step->port;
    uint16_t *first = state->slot;
    const uint32_t y = state->made;
    uint32_t after = y + step->group, ports = step->ports;
    if (after > step->rows) {
        after = step->rows;
    }
    turn->y = y;
    turn->after = after;
    turn->end = turn->rows;
    do {
        if (port->dilation != 0) {
            row_window(turn, port, first, state);
        } else {
            const uint32_t slot = *first, next = slot + after - y;
            *turn->end++ = (const int8_t *)(PLACE(turn->arena, port->at.offset) + slot * port->row_bytes);
            *first = (uint16_t)(next == port->ring ? 0u : next);
            state->need = (uint16_t)((int32_t)after + port->lead);
        }
        port++;
        first++;
    } while (--ports > 0);
    const uint32_t count = turn->after - turn->y, slot = state->out_slot, next = slot + count;
    uint8_t *out = PLACE(turn->arena, step->out_offset) + slot * step->out_row_bytes;
    if (turn->image != 0) {
        out += turn->image * step->out_ring * step->out_row_bytes;
    }
    state->out_slot = (uint16_t)(next == step->out_ring ? 0u : next);
    YIELDED();
    PROFILED(turn->program, step);
    step->call(step->layer, turn->rows, (int8_t *)out, step->n * (int32_t)count,
               PLACE(turn->arena, step->scratch_offset), (int32_t)turn->y);
    TRACED(out, step->out_row_bytes * count);
    TRACED_ALSO(turn->program->ports + step->port, step->ports, turn->rows, count);
    COUNTED(turn->program, step, out, turn->rows, count, turn->after == step->rows);
    state->made = (uint16_t)turn->after;
    if (state->made == step->rows) {
        state->made = CORTADO_ALL;
        state->need = CORTADO_NEVER;
    }
}

/* Every step at its first row; row -pad lies `pad` slots before slot 0 of its ring. */
static void reset(const cortado_step_t *step, const cortado_port_t *ports, cortado_state_t *state, uint32_t steps)
{
    cortado_state_t *const all = state;
    for (uint32_t s = 0; s < steps; s++, step++, state++) {
        const cortado_port_t *port = ports + step->port;
        state->made = 0;
        state->out_slot = 0;
        state->need = step->ports == 0 ? CORTADO_NEVER : 0u; /* pushed rows are not computed here */
        state->from = (uint8_t)s;
        state->reach = 0;
        for (uint32_t i = 0; i < step->ports; i++, port++) {
            if (port->producer < CORTADO_CONSTANT) {
                all[port->producer].reach = (uint8_t)(s - port->producer);
                state->from = port->producer;
                state->need = rows_needed(port, 0);
            }
            uint32_t slot = 0;
            while (slot < port->pad) {
                slot += port->ring;
            }
            state->slot[i] = (uint16_t)(slot - port->pad);
        }
    }
}

/* Computes rows until no step is ready; the last ready step always runs first. */
static void advance(const cortado_program_t *program, const cortado_stage_t *stage, uint32_t number, uint32_t image,
                    arena_t arena, cortado_state_t *state, const int8_t **rows)
{
    turn_t turn = {arena, image, 0, 0, rows, rows, program};
    const cortado_step_t *step = program->steps + stage->first + stage->steps - 1;
    cortado_state_t *at = state + stage->steps - 1;
    (void)number;
    for (;;) {
        if (state[at->from].made >= at->need &&
            (step->ports < 2 || ready(program->ports + step->port, step->ports, state, at->made))) {
            run_row(&turn, step, at);
            CHECK(program, step, number, arena);
            /* Nothing but what reads these rows became possible, and that goes first. */
            step += at->reach;
            at += at->reach;
            continue;
        }
        if (at == state) {
            break;
        }
        at--;
        step--;
    }
}

/* The one call of a stage that is one step with one row, of the first row of each operand: 1; or else 0. */
static inline int run_call(const cortado_program_t *program, const cortado_step_t *step, arena_t arena,
                           const int8_t **rows)
{
    const cortado_port_t *port = program->ports + step->port;
    const int8_t **row = rows;
    for (uint32_t ports = step->ports; ports > 0; ports--, port++) {
        if (((port->taps ^ 1u) | port->pad) != 0) {
            return 0;
        }
        *row++ = port->producer == CORTADO_CONSTANT ? port->at.constant : (int8_t *)PLACE(arena, port->at.offset);
    }
    uint8_t *const out = PLACE(arena, step->out_offset);
    YIELDED();
    PROFILED(program, step);
    step->call(step->layer, rows, (int8_t *)out, step->n, PLACE(arena, step->scratch_offset), 0);
    TRACED(out, step->out_row_bytes);
    TRACED_ALSO(program->ports + step->port, step->ports, rows, 1u);
    COUNTED(program, step, out, rows, 1u, 1);
    return 1;
}

void cortado_run_stage(const cortado_program_t *program, const cortado_stage_t *stage, uint32_t number,
                       arena_t arena, cortado_state_t *state, const int8_t **rows)
{
    const cortado_step_t *steps = program->steps + stage->first;
    PAINT(program, number, arena);
    CHECK_SCRATCH(steps, stage->steps);
    if (stage->steps == 1 && stage->images == 1 && steps->rows == 1 && run_call(program, steps, arena, rows)) {
        CHECK(program, steps, number, arena);
        return;
    }
    for (uint32_t image = 0; image < stage->images; image++) {
        reset(steps, program->ports, state, stage->steps);
        advance(program, stage, number, image, arena, state, rows);
    }
}

#ifndef CORTADO_REGIONS /* rows that are pushed need an arena in one piece */
void cortado_reset_stage(const cortado_program_t *program, const cortado_stage_t *stage, uint32_t number,
                         uint8_t *arena, cortado_state_t *state)
{
    const cortado_step_t *steps = program->steps + stage->first;
    PAINT(program, number, arena);
    CHECK_SCRATCH(steps, stage->steps);
    (void)arena;
    reset(steps, program->ports, state, stage->steps);
}

/* The first step has made the row that the caller wrote. */
static void take_row(const cortado_program_t *program, const cortado_step_t *step, uint8_t *arena,
                     cortado_state_t *state)
{
    PROFILED(program, step);
    TRACED(arena + step->out_offset + state->out_slot * step->out_row_bytes, step->out_row_bytes);
    COUNTED(program, step, arena + step->out_offset + state->out_slot * step->out_row_bytes, NULL, 1u, 1);
    (void)arena;
    const uint32_t made = state->made + 1u, slot = state->out_slot + 1u;
    state->made = (uint16_t)(made == step->rows ? CORTADO_ALL : made);
    state->out_slot = (uint16_t)(slot == step->out_ring ? 0u : slot);
}

void cortado_push_row(const cortado_program_t *program, const cortado_stage_t *stage, uint32_t number, uint8_t *arena,
                      cortado_state_t *state, const int8_t **rows)
{
    const cortado_step_t *first = program->steps + stage->first;
    CHECK(program, first, number, arena); /* includes the input that the caller wrote */
    take_row(program, first, arena, state);
    advance(program, stage, number, 0, arena, state, rows);
}
#endif
