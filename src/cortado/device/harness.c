/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the model on samples: the input is their number and the length of a sequence (0: all samples are one), then the
 * bytes of each input of each sample; the bytes of the outputs leave in the same order. A model with state is reset where
 * a sequence begins. At the end it tells the most stack that any run used, where the port knows the stack.
 */
#include "harness.h"

#include "markers.h"
#include "port.h"

enum { EXIT_INPUT = 3, EXIT_MODEL = 4 };

#define PAINT 0x5AA5C33Cu

int cortado_harness_once(const cortado_harness_model_t *model);

static uint32_t stack_bytes;

static void stop(int code, const char *what, uint32_t sample) {
    cortado_port_print(cortado_harness_model.name);
    cortado_port_print(": ");
    cortado_port_print(what);
    cortado_port_print(", sample ");
    cortado_port_print_unsigned(sample);
    cortado_port_print("\n");
    cortado_port_exit(code);
}

#if defined(__arm__)
#define STACK_POINTER(variable) __asm__ volatile("mov %0, sp" : "=r"(variable)::"memory")
#else
#define STACK_POINTER(variable) ((variable) = NULL)
#endif

static void send_outputs(const cortado_harness_model_t *model) {
    int i;

    for (i = 0; i < model->outputs; ++i) {
        cortado_port_send(CORTADO_RECORD_OUTPUT, model->output(model->arena, i), model->output_bytes[i]);
    }
}

/* One input, row by row. Neither reading a row nor sending what it gives is part of what is measured. Inline, for the
 * sake of the stack. */
__attribute__((always_inline)) static inline int run_rows(const cortado_harness_model_t *model) {
    size_t left;

    for (left = model->input_bytes[0]; left > 0; left -= model->row_bytes) {
        void *const row = model->row(model->arena);
        int status;

        cortado_marker_pause();
        status = row == NULL ? -1 : cortado_port_read(row, model->row_bytes);
        cortado_marker_resume();
        status = status != 0 ? -1 : model->push(model->arena);
        if (status < 0) {
            return status;
        }
        if (status > 0) {
            cortado_marker_pause();
            send_outputs(model);
            cortado_marker_resume();
        }
    }
    return 0;
}

/* Fills the unused stack with a pattern, runs, and looks how far down the pattern is gone. In one function, so that
 * what is measured is what lies below the frame that calls the model. */
__attribute__((noinline)) int cortado_harness_once(const cortado_harness_model_t *model) {
    uint32_t *const limit = cortado_port_stack_limit();
    volatile uint32_t *word;
    uint32_t *sp;
    int status;

    STACK_POINTER(sp);
    if (limit != NULL) {
        for (word = limit; word < sp; ++word) {
            *word = PAINT;
        }
    }
    cortado_marker_begin();
    status = model->run == NULL ? run_rows(model) : model->run(model->arena);
    cortado_marker_end();
    if (limit != NULL) {
        uint32_t used;

        for (word = limit; word < sp && *word == PAINT; ++word) {
        }
        used = (uint32_t)((uintptr_t)sp - (uintptr_t)word);
        stack_bytes = used > stack_bytes ? used : stack_bytes;
    }
    return status;
}

static void run_sample(const cortado_harness_model_t *model, uint32_t sample) {
    int i;

    if (model->run == NULL) {
        model->reset(model->arena);
    }
    for (i = 0; i < model->inputs && model->run != NULL; ++i) {
        if (cortado_port_read(model->input(model->arena, i), model->input_bytes[i]) != 0) {
            stop(EXIT_INPUT, "the input ends too early", sample);
        }
    }
    if (cortado_harness_once(model) != 0) {
        stop(EXIT_MODEL, "run reported an error", sample);
    }
    if (model->run != NULL) {
        send_outputs(model);
    }
}

int main(void) {
    const cortado_harness_model_t *model = &cortado_harness_model;
    uint32_t header[2] = {0, 0}; /* samples, and steps of a sequence */
    uint32_t sample;
    uint32_t step = 0;

    if (cortado_port_read(header, sizeof header) != 0) {
        stop(EXIT_INPUT, "there is no input", 0);
    }
    for (sample = 0; sample < header[0]; ++sample) {
        if (step == 0 && model->reset != NULL) {
            model->reset(model->arena);
        }
        run_sample(model, sample);
        step = step + 1 == header[1] ? 0 : step + 1;
    }
    if (cortado_port_stack_limit() != NULL) {
        cortado_port_send_number(CORTADO_RECORD_STACK, stack_bytes);
    }
    cortado_port_exit(0);
}
