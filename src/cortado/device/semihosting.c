/* SPDX-License-Identifier: Apache-2.0
 *
 * The port on Arm semihosting: BKPT 0xAB with an operation in r0 and the address of its arguments in r1.
 */
#include "semihosting.h"

#include "port.h"

enum {
    SYS_OPEN = 0x01,
    SYS_CLOSE = 0x02,
    SYS_WRITE0 = 0x04,
    SYS_WRITE = 0x05,
    SYS_READ = 0x06,
    SYS_GET_CMDLINE = 0x15,
    SYS_EXIT_EXTENDED = 0x20
};

enum { OPEN_READ_BINARY = 1, OPEN_WRITE_BINARY = 5 };

#define STOPPED_APPLICATION_EXIT 0x20026u

extern uint32_t cortado_stack_limit[]; /* from the linker script */

static int32_t semihost(uint32_t operation, const void *arguments) {
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = arguments;

    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return (int32_t)r0;
}

static uint32_t address(const void *pointer) { return (uint32_t)(uintptr_t)pointer; }

static uint32_t length(const char *text) {
    uint32_t n = 0;

    while (text[n] != '\0') {
        ++n;
    }
    return n;
}

int cortado_port_open(const char *path, int mode) {
    uint32_t arguments[3];

    arguments[0] = address(path);
    arguments[1] = mode == CORTADO_PORT_WRITE ? OPEN_WRITE_BINARY : OPEN_READ_BINARY;
    arguments[2] = length(path);
    return semihost(SYS_OPEN, arguments);
}

/* Both operations return the number of bytes NOT moved. */
static int transfer(uint32_t operation, int handle, const void *data, size_t bytes) {
    uint32_t arguments[3];

    arguments[0] = (uint32_t)handle;
    arguments[1] = address(data);
    arguments[2] = (uint32_t)bytes;
    return semihost(operation, arguments) == 0 ? 0 : -1;
}

int cortado_port_read(int handle, void *data, size_t bytes) { return transfer(SYS_READ, handle, data, bytes); }

int cortado_port_write(int handle, const void *data, size_t bytes) {
    return transfer(SYS_WRITE, handle, data, bytes);
}

int cortado_port_close(int handle) {
    uint32_t arguments[1];

    arguments[0] = (uint32_t)handle;
    return semihost(SYS_CLOSE, arguments) == 0 ? 0 : -1;
}

void cortado_port_print(const char *text) { (void)semihost(SYS_WRITE0, text); }

void cortado_port_exit(int code) {
    uint32_t arguments[2];

    arguments[0] = STOPPED_APPLICATION_EXIT;
    arguments[1] = (uint32_t)code;
    for (;;) {
        (void)semihost(SYS_EXIT_EXTENDED, arguments);
    }
}

uint32_t *cortado_port_stack_limit(void) { return cortado_stack_limit; }

int cortado_semihosting_command_line(char *buffer, size_t size) {
    uint32_t arguments[2];

    arguments[0] = address(buffer);
    arguments[1] = (uint32_t)size;
    return semihost(SYS_GET_CMDLINE, arguments) == 0 ? 0 : -1;
}
