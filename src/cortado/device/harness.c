/* SPDX-License-Identifier: Apache-2.0
 *
 * PROGRAM input.bin output.bin count: runs the model on `count` samples.
 *
 * input.bin holds, sample after sample, the bytes of each input; output.bin receives the bytes of each output alike.
 * Prints one JSON line with the most stack any run used, where the port knows the stack.
 */
#include "harness.h"

#include "markers.h"
#include "port.h"

enum { EXIT_USAGE = 2, EXIT_FILES = 3, EXIT_MODEL = 4 };

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
    status = model->run(model->arena);
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

static void run_sample(const cortado_harness_model_t *model, int source, int sink, uint32_t sample) {
    int i;

    for (i = 0; i < model->inputs; ++i) {
        if (cortado_port_read(source, model->input(model->arena, i), model->input_bytes[i]) != 0) {
            stop(EXIT_FILES, "the input file ends too early", sample);
        }
    }
    if (cortado_harness_once(model) != 0) {
        stop(EXIT_MODEL, "run reported an error", sample);
    }
    for (i = 0; i < model->outputs; ++i) {
        if (cortado_port_write(sink, model->output(model->arena, i), model->output_bytes[i]) != 0) {
            stop(EXIT_FILES, "cannot write the output file", sample);
        }
    }
}

/* No strtoul: it would bring locale tables. Returns 0 for anything that isn't a positive decimal number. */
static uint32_t parse(const char *text) {
    uint32_t value = 0;

    for (; *text != '\0'; ++text) {
        if (*text < '0' || *text > '9' || value > 99999999u) {
            return 0;
        }
        value = value * 10u + (uint32_t)(*text - '0');
    }
    return value;
}

int main(int argc, char **argv) {
    const cortado_harness_model_t *model = &cortado_harness_model;
    const uint32_t count = argc == 4 ? parse(argv[3]) : 0;
    uint32_t sample;
    int source;
    int sink;

    if (count == 0) {
        cortado_port_print("usage: PROGRAM input.bin output.bin count\n");
        return EXIT_USAGE;
    }
    source = cortado_port_open(argv[1], CORTADO_PORT_READ);
    sink = cortado_port_open(argv[2], CORTADO_PORT_WRITE);
    if (source < 0 || sink < 0) {
        cortado_port_print("cannot open ");
        cortado_port_print(source < 0 ? argv[1] : argv[2]);
        cortado_port_print("\n");
        return EXIT_FILES;
    }
    for (sample = 0; sample < count; ++sample) {
        run_sample(model, source, sink, sample);
    }
    if (cortado_port_close(source) != 0 || cortado_port_close(sink) != 0) {
        cortado_port_print("cannot close the files\n");
        return EXIT_FILES;
    }
    if (cortado_port_stack_limit() != NULL) {
        cortado_port_print("{\"stack_bytes\": ");
        cortado_port_print_unsigned(stack_bytes);
        cortado_port_print("}\n");
    }
    return 0;
}
