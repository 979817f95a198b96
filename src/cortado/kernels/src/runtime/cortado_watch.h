/* SPDX-License-Identifier: Apache-2.0
 *
 * What the loops over rows tell of themselves in builds that ask for it: rows, steps, and guards around buffers.
 */
#ifndef CORTADO_WATCH_H
#define CORTADO_WATCH_H

#include "cortado_run.h"

/* The address of an offset. The regions of a split arena follow each other. */
#ifdef CORTADO_REGIONS
typedef const cortado_region_t *arena_t;

static inline uint8_t *row_place(const cortado_region_t *region, uint32_t offset)
{
    while (offset >= region->end) {
        region++;
    }
    return (uint8_t *)(region->base + offset);
}

#define PLACE(arena, offset) row_place(arena, offset)
#else
typedef uint8_t *arena_t;
#define PLACE(arena, offset) ((arena) + (offset))
#endif

#ifdef CORTADO_TRACE
/* The rows of results beside the first, as a call of a kernel has left them: `count` of each. */
static inline void trace_also(const cortado_port_t *port, uint32_t ports, const int8_t *const *rows, uint32_t count)
{
    for (; ports > 0; ports--, rows += port->taps, port++) {
        if (port->producer == CORTADO_WRITTEN) {
            cortado_traced(*rows, port->row_bytes * count);
        }
    }
}

#define TRACED(out, bytes) cortado_traced(out, bytes)
#define TRACED_ALSO(port, ports, rows, count) trace_also(port, ports, rows, count)
#else
#define TRACED(out, bytes) ((void)0)
#define TRACED_ALSO(port, ports, rows, count) ((void)0)
#endif

#ifdef CORTADO_YIELD
#define YIELDED() cortado_yield()
#else
#define YIELDED() ((void)0)
#endif

#ifdef CORTADO_PROFILE
#define PROFILED(program, step) (program)->profile((uint32_t)((step) - (program)->steps))
#else
#define PROFILED(program, step) ((void)(program))
#endif

#ifdef CORTADO_CHECK_RANGES
/* After a kernel call that left `count` rows of each result. */
static inline void count_ends(const cortado_program_t *program, const cortado_step_t *step, const void *out,
                              const int8_t *const *rows, uint32_t count, int last)
{
    if (program->first_range == NULL) {
        return;
    }
    const uint16_t *first = program->first_range + (step - program->steps);
    for (uint32_t i = first[0]; i < first[1]; i++) {
        const cortado_range_t *range = &program->ranges[i];
        const cortado_port_t *port = program->ports + step->port;
        const void *values = out;
        uint32_t bytes = step->out_row_bytes * count;
        const int8_t *const *at = rows;
        for (uint32_t result = 0; result < range->result; at += port->taps, port++) {
            if (port->producer == CORTADO_WRITTEN) {
                values = *at;
                bytes = port->row_bytes * count;
                result++;
            }
        }
        if (last || !range->last) {
            program->saturated[i] += cortado_at_ends(range, values, bytes);
        }
    }
}

#define COUNTED(program, step, out, rows, count, last) count_ends(program, step, out, rows, count, last)
#else
#define COUNTED(program, step, out, rows, count, last) ((void)0)
#endif

#ifdef CORTADO_ENABLE_RUNTIME_CHECKS

/* The default: loops, for a debugger or a watchdog to notice. */
__attribute__((weak)) void cortado_check_failed(const char *step, const char *what, const char *buffer)
{
    (void)step;
    (void)what;
    (void)buffer;
    for (;;) {
    }
}

static uint8_t guard_byte(uint32_t i)
{
    return (uint8_t)(0xA5u + 7u * i);
}

/* Paints the guards of the buffers whose life begins with this stage. */
static void paint(const cortado_program_t *program, uint32_t stage, arena_t arena)
{
    for (int32_t b = 0; b < program->guarded_count; b++) {
        const cortado_guarded_t *buffer = &program->guarded[b];
        if (buffer->first == stage) {
            /* One walk each: GCC 12 on AArch64 drops this function if both addresses go by one counter. */
            uint8_t *const first = PLACE(arena, buffer->offset), *before = first, *behind = first + buffer->size;
            for (uint32_t i = 0; i < CORTADO_GUARD_BYTES; i++) {
                *--before = guard_byte(i);
            }
            for (uint32_t i = 0; i < CORTADO_GUARD_BYTES; i++) {
                *behind++ = guard_byte(i);
            }
        }
    }
}

static void check(const cortado_program_t *program, const cortado_step_t *step, uint32_t stage, const arena_t arena)
{
    for (int32_t b = 0; b < program->guarded_count; b++) {
        const cortado_guarded_t *buffer = &program->guarded[b];
        if (buffer->first <= stage && stage <= buffer->last) {
            const uint8_t *const first = PLACE(arena, buffer->offset), *const end = first + buffer->size;
            for (uint32_t i = 0; i < CORTADO_GUARD_BYTES; i++) {
                if (*(first - 1 - i) != guard_byte(i)) {
                    cortado_check_failed(step->name, "wrote before the start of buffer", buffer->name);
                }
                if (end[i] != guard_byte(i)) {
                    cortado_check_failed(step->name, "wrote past the end of buffer", buffer->name);
                }
            }
        }
    }
}

static void check_scratch(const cortado_step_t *step, uint32_t steps)
{
    for (; steps > 0; steps--, step++) {
        const int32_t need = step->scratch_need == NULL ? 0 : step->scratch_need(step->layer);
        if (need != step->scratch_bytes) {
            cortado_check_failed(step->name, "needs another size than planned for buffer", "scratch");
        }
    }
}

#define PAINT(program, stage, arena) paint(program, stage, arena)
#define CHECK(program, step, stage, arena) check(program, step, stage, arena)
#define CHECK_SCRATCH(step, steps) check_scratch(step, steps)
#else
#define PAINT(program, stage, arena) ((void)(stage))
#define CHECK(program, step, stage, arena) ((void)0)
#define CHECK_SCRATCH(step, steps) ((void)0)
#endif

#endif /* CORTADO_WATCH_H */
