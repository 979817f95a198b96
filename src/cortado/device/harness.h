/* SPDX-License-Identifier: Apache-2.0
 *
 * How a program that runs a model on files sees the model. The description is generated beside the model.
 */
#ifndef CORTADO_HARNESS_H
#define CORTADO_HARNESS_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *name;
    void *arena;
    int inputs;
    int outputs;
    const size_t *input_bytes;  /* [inputs] */
    const size_t *output_bytes; /* [outputs] */
    void *(*input)(void *arena, int i);
    const void *(*output)(const void *arena, int i);
    int (*run)(void *arena); /* 0 = fine; NULL: the only input comes row by row, and `run` is row and push */
    void (*reset)(void *arena); /* before every input that comes row by row; where state begins anew; else NULL */
    int8_t *(*row)(void *arena);
    int (*push)(void *arena); /* 1 = the outputs are there */
    size_t row_bytes;
} cortado_harness_model_t;

extern const cortado_harness_model_t cortado_harness_model;

#endif
