/* SPDX-License-Identifier: Apache-2.0
 *
 * How a program runs: stages of steps, each a kernel that makes one output row from input rows.
 *
 * A stage runs its steps row by row together. Always the last step whose input rows are all there makes its next
 * row, so that rows are used as soon as they exist and a ring of a few rows is enough between two steps.
 */
#ifndef CORTADO_RUN_H
#define CORTADO_RUN_H

#include "cortado.h"
#include "cortado_copy.h"
#include "cortado_version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Descriptor of the two float borders. */
typedef struct {
    float scale;
    int32_t zero_point;
} cortado_border_t;

/* A step's kernel: L is the layer's descriptor, rows the input rows, n the pixels or elements of a row, y the row. */
typedef void (*cortado_call_t)(const void *layer, const int8_t *const rows[], int8_t *out, int32_t n, void *scratch,
                               int32_t y);

/* A port's producer, if not a step of its stage: */
#define CORTADO_COMPLETE 0xFFu /* the tensor is complete before the stage starts */
#define CORTADO_WRITTEN 0xFEu  /* it is no operand but a result of the step, beside its first */
#define CORTADO_CONSTANT 0xFDu /* it lies in flash */

/* One tensor operand, or a result beside the first: output row y reads rows (y >> repeat) * stride - pad +
 * k * dilation, k = 0 .. taps-1. */
typedef struct {
    union {
        uint32_t offset;      /* in the arena */
        const void *constant; /* in flash */
    } at;
    uint32_t row_bytes;
    uint16_t height; /* rows of one image */
    uint16_t ring;   /* rows that are held in memory; height for a whole tensor */
    int16_t lead;    /* the producer must have made (y >> repeat) * stride + lead rows, or all that it makes */
    uint8_t taps;
    uint8_t stride;
    uint8_t dilation; /* 0: row y alone, of a step of this stage */
    uint8_t pad;
    uint8_t repeat;
    uint8_t producer; /* the step of this stage that makes it, or one of the above */
} cortado_port_t;

typedef struct {
    cortado_call_t call;
    const void *layer;
    uint32_t out_offset;
    uint32_t out_row_bytes;
    uint32_t scratch_offset;
    int32_t n;
    uint16_t rows;     /* output rows to make; without ports they are pushed, and there is no kernel */
    uint16_t out_ring; /* rows held in memory; 1: every call writes the same row */
    uint16_t port;     /* its first port in the program's table; other steps may have the same */
    uint8_t ports;
    uint8_t group; /* rows that a call makes, of `n` pixels each */
#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
    const char *name;
    int32_t scratch_bytes;                 /* as planned */
    int32_t (*scratch_need)(const void *); /* the kernel's own sum over its layer; NULL: it needs none */
#endif
} cortado_step_t;

#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
/* Built with checks, every buffer of the plan has guard bytes on both sides. They are painted when the buffer's life
 * begins and looked at after every kernel call of its life. Zero cost when off. */
#define CORTADO_GUARD_BYTES 16
typedef struct {
    const char *name;
    uint32_t offset, size;
    uint16_t first, last; /* the stages of its life */
} cortado_guarded_t;

/* Called by a failed check; must not return. Define your own to print, log or reset; the default loops forever. */
void cortado_check_failed(const char *step, const char *what, const char *buffer);
#endif

#ifdef CORTADO_TRACE
/* Built with a trace, every kernel call shows the output rows it leaves behind, of each result those of one call
 * together. Yours to define. */
void cortado_traced(const void *row, uint32_t bytes);
#endif

#ifdef CORTADO_YIELD
/* Built so, this is called before every kernel call: a place to feed a watchdog or to let other threads run. Yours to
 * define. */
void cortado_yield(void);
#endif

#ifdef CORTADO_CHECK_RANGES
/* Built so, values at an end of their range are counted: they are that value, or were beyond it and saturated. */
#define CORTADO_NO_CODE (-129) /* low: that end is not counted */
typedef struct {
    int16_t low, high;
    uint8_t bytes;  /* per value: 1 or 2 */
    uint8_t result; /* of its step: 0 for the first, 1 and up for the others */
    uint8_t last;   /* 1: the result is complete only after the last call for an image */
} cortado_range_t;

/* Counts the values that are at an end of their range. */
static inline uint32_t cortado_at_ends(const cortado_range_t *range, const void *values, uint32_t bytes)
{
    const int8_t *narrow = (const int8_t *)values;
    const int16_t *wide = (const int16_t *)values;
    uint32_t found = 0;
    for (uint32_t left = bytes / range->bytes; left > 0; left--) {
        const int32_t code = range->bytes == 1 ? *narrow++ : *wide++;
        found += code == range->low || code == range->high;
    }
    return found;
}
#endif

typedef struct {
    uint16_t first; /* step of the program's table */
    uint16_t images;
    uint8_t steps;
} cortado_stage_t;

typedef struct {
    const cortado_step_t *steps;
    const cortado_port_t *ports;
#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
    const cortado_guarded_t *guarded;
    int32_t guarded_count;
#endif
#ifdef CORTADO_PROFILE
    void (*profile)(uint32_t step); /* before each kernel call: the step's place in `steps` */
#endif
#ifdef CORTADO_CHECK_RANGES
    const uint16_t *first_range; /* per step, and one more: its first range; NULL: none are counted */
    const cortado_range_t *ranges;
    uint32_t *saturated; /* by range */
#endif
} cortado_program_t;

/* Where a step stands: its rows that are made, and the ring slots of its next row and of its ports' first rows; what
 * its next row waits for: `need` rows of step `from`, the last of its stage that it reads, or 0 of itself; and how many
 * steps further the last one is that reads it. */
#define CORTADO_MAX_PORTS 4
#define CORTADO_ALL 0xFFFEu   /* made: there is no more to make */
#define CORTADO_NEVER 0xFFFFu /* need: there is no next row */
typedef struct {
    uint16_t made;
    uint16_t need;
    uint8_t from;
    uint8_t reach;
    uint16_t out_slot;
    uint16_t slot[CORTADO_MAX_PORTS];
} cortado_state_t;

#define cortado_run_stage CORTADO_VERSIONED(cortado_run_stage)
#define cortado_run_stage_regions CORTADO_VERSIONED(cortado_run_stage_regions)
#define cortado_reset_stage CORTADO_VERSIONED(cortado_reset_stage)
#define cortado_push_row CORTADO_VERSIONED(cortado_push_row)

/* Runs stage `number` in the arena. `state` holds one entry per step, `rows` a pointer per tap of the widest step. */
void cortado_run_stage(const cortado_program_t *program, const cortado_stage_t *stage, uint32_t number,
                       uint8_t *arena, cortado_state_t *state, const int8_t **rows);

/* A piece of an arena that lies in several memories. Offsets count through all pieces: those below `end`, and not below
 * that of the piece before, lie at `base` + offset. The `end` of the last is UINT32_MAX. */
typedef struct {
    uint32_t end;
    uintptr_t base; /* that offset 0 would have */
} cortado_region_t;

/* The same in several memories (cortado_regions.c). */
void cortado_run_stage_regions(const cortado_program_t *program, const cortado_stage_t *stage, uint32_t number,
                               const cortado_region_t *regions, cortado_state_t *state, const int8_t **rows);

/* A stage whose first step's rows are pushed, one after the other. `state` is kept from one row to the next; the next
 * row goes to slot state->out_slot of the first step's ring, before cortado_push_row makes what has become possible. */
void cortado_reset_stage(const cortado_program_t *program, const cortado_stage_t *stage, uint32_t number,
                         uint8_t *arena, cortado_state_t *state);
void cortado_push_row(const cortado_program_t *program, const cortado_stage_t *stage, uint32_t number, uint8_t *arena,
                      cortado_state_t *state, const int8_t **rows);

#ifdef __cplusplus
}
#endif

#endif /* CORTADO_RUN_H */
