/* SPDX-License-Identifier: Apache-2.0
 *
 * What the harness needs from the machine below it: files, text, an exit code and the place of the stack.
 * semihosting.c provides it on an emulated board, port_host.c on the development machine.
 */
#ifndef CORTADO_PORT_H
#define CORTADO_PORT_H

#include <stddef.h>
#include <stdint.h>

enum { CORTADO_PORT_READ = 0, CORTADO_PORT_WRITE = 1 };

/* A handle, or -1. Writing starts an empty file. */
int cortado_port_open(const char *path, int mode);
/* 0 when all bytes were moved, else -1. */
int cortado_port_read(int handle, void *data, size_t bytes);
int cortado_port_write(int handle, const void *data, size_t bytes);
int cortado_port_close(int handle);

void cortado_port_print(const char *text);
void cortado_port_print_unsigned(uint32_t value);
void cortado_port_print_hex(uint32_t value);
void cortado_port_exit(int code) __attribute__((noreturn));

/* The lowest word of the stack, which grows down towards it; NULL where the port doesn't know. */
uint32_t *cortado_port_stack_limit(void);

#endif
