/* SPDX-License-Identifier: Apache-2.0
 *
 * A model on a chip that a debugger holds: what both write into memory between two stops. The debugger sets a command,
 * lets the chip run to cortado_probe_stop, and reads. There is no other way in or out.
 */
#ifndef CORTADO_PROBE_H
#define CORTADO_PROBE_H

#include <stddef.h>
#include <stdint.h>

enum {
    CORTADO_PROBE_RESET = 1, /* the model's state */
    CORTADO_PROBE_RUN = 2,   /* on what the debugger wrote */
    CORTADO_PROBE_AGAIN = 3, /* on what is there: with warm caches */
    CORTADO_PROBE_PUSH = 4,  /* the row that the debugger wrote */
    CORTADO_PROBE_SPIN = 5,  /* for as many cycles as the argument says */
    CORTADO_PROBE_WALK = 6   /* over instructions in a row, where they were loaded; with an argument in RAM */
};

/* All members are words: the debugger reads them by their numbers. */
typedef struct {
    uint32_t magic; /* CORTADO_PROBE_MAGIC when main has begun */
    uint32_t command, argument;
    uint32_t status;   /* what the model returned */
    uint32_t counter;  /* 0: there is none, 1: DWT, 2: SysTick */
    uint32_t cycles;   /* of the last command */
    uint32_t overhead; /* cycles that measuring nothing takes */
    uint32_t stack;    /* bytes that the last run used */
    uint32_t step;     /* the last that began */
    uint32_t caches;   /* 1: instructions, 2: data */
    uint32_t row;      /* where the next row goes */
    uint32_t fault;    /* the exception's number; 0: none */
    uint32_t pc, lr, sp, cfsr, hfsr, mmfar, bfar;
} cortado_probe_t;

#define CORTADO_PROBE_MAGIC 0x0C047AD0u
#define CORTADO_PROBE_NO_STEP 0xFFFFFFFFu

/* Generated beside the model. */
typedef struct {
    void *arena;
    int (*run)(void *arena); /* NULL: the input comes row by row */
    void (*reset)(void *arena);
    int8_t *(*row)(void *arena);
    int (*push)(void *arena);
    uint32_t steps;
    uint32_t *step_cycles; /* [steps] of the last run, and behind them how often each was called; NULL: not watched */
} cortado_probe_model_t;

extern cortado_probe_model_t cortado_probe_model;
extern uint32_t cortado_probe_places[]; /* addresses of inputs, then of outputs */
void cortado_probe_fill(void);          /* tells the model's arena, and these */

extern volatile cortado_probe_t cortado_probe;

void cortado_probe_stop(void);
void cortado_probe_step(uint32_t step); /* before each kernel call, and with the number of steps at the end */
void cortado_probe_tick(void);          /* of SysTick's interrupt */

#endif
