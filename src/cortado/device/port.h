/* SPDX-License-Identifier: Apache-2.0
 *
 * What the harness needs from the machine below it: the run's input, a way out for what it has to say, and the place
 * of the stack. port_board.c provides it on an emulated board, port_host.c on the development machine.
 *
 * What a program says is a sequence of records: one byte for the kind, four for the length (the lowest first), and
 * the data. The last one is its exit code; a program that ends without it has failed.
 */
#ifndef CORTADO_PORT_H
#define CORTADO_PORT_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
    CORTADO_RECORD_TEXT = 'T',
    CORTADO_RECORD_OUTPUT = 'O', /* of the model */
    CORTADO_RECORD_TRACE = 'R',  /* rows of its layers */
    CORTADO_RECORD_STACK = 'S',  /* four bytes: how much stack a run used */
    CORTADO_RECORD_EXIT = 'X'    /* four bytes */
} cortado_record_t;

/* Takes the next bytes of the run's input. 0, or -1 if it has no such number left. */
int cortado_port_read(void *data, size_t bytes);

/* Says something, in as many records as it takes. */
void cortado_port_send(cortado_record_t kind, const void *data, size_t bytes);
void cortado_port_send_number(cortado_record_t kind, uint32_t value);
void cortado_port_print(const char *text);
void cortado_port_print_unsigned(uint32_t value);
void cortado_port_print_hex(uint32_t value);
void cortado_port_exit(int code) __attribute__((noreturn));

/* The lowest word of the stack, which grows down towards it; NULL where the port doesn't know. */
uint32_t *cortado_port_stack_limit(void);

/* Below the records: bytes on their way out, and the end of the program. */
void cortado_port_put(const uint8_t *data, size_t bytes);
void cortado_port_stop(int code) __attribute__((noreturn));

#endif
