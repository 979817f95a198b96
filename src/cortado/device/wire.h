/* SPDX-License-Identifier: Apache-2.0
 *
 * The way by which a program's records leave its board. Each board links the file of its own.
 */
#ifndef CORTADO_WIRE_H
#define CORTADO_WIRE_H

#include <stddef.h>
#include <stdint.h>

/* What the emulator puts before the run's input. */
typedef struct {
    uint32_t bytes;    /* of the input */
    uint32_t said;     /* wire_memory.c: bytes of records behind the input */
    uint32_t full;     /* wire_memory.c: 1 if there was no room for more */
    uint32_t reserved; /* the input is aligned */
} cortado_input_t;

/* From the linker script: where that lies, and the end of the memory that it lies in. */
extern uint8_t cortado_input[];
extern uint8_t cortado_input_end[];

#define CORTADO_INPUT ((volatile cortado_input_t *)(void *)cortado_input)
#define CORTADO_INPUT_DATA (cortado_input + sizeof(cortado_input_t))

void cortado_wire_start(void);
void cortado_wire_send(const uint8_t *data, size_t bytes);

#endif
