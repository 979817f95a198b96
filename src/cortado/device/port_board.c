/* SPDX-License-Identifier: Apache-2.0
 *
 * The port on an emulated board: the emulator has put the run's input into memory. What the program says is all that
 * leaves: there is no semihosting, and no other way to the machine around it.
 */
#include "port.h"
#include "wire.h"

#define AIRCR (*(volatile uint32_t *)0xE000ED0Cu)
#define AIRCR_SYSRESETREQ 0x05FA0004u

extern uint32_t cortado_stack_limit[]; /* from the linker script */

int cortado_port_read(void *data, size_t bytes) {
    static size_t taken;
    const uint8_t *from = CORTADO_INPUT_DATA + taken;
    uint8_t *to = data;
    size_t i;

    if (bytes > CORTADO_INPUT->bytes - taken) {
        return -1;
    }
    for (i = 0; i < bytes; ++i) {
        to[i] = from[i];
    }
    taken += bytes;
    return 0;
}

void cortado_port_put(const uint8_t *data, size_t bytes) { cortado_wire_send(data, bytes); }

/* The emulator ends where a board would start again. */
void cortado_port_stop(int code) {
    (void)code;
    for (;;) {
        __asm__ volatile("dsb" ::: "memory");
        AIRCR = AIRCR_SYSRESETREQ;
    }
}

uint32_t *cortado_port_stack_limit(void) { return cortado_stack_limit; }
