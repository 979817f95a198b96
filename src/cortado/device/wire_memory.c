/* SPDX-License-Identifier: Apache-2.0
 *
 * Records stay in the board's large RAM, behind the input, from the next multiple of 16. The emulator keeps that memory
 * in a file, where they are found after the run. (A serial port would take seconds for each megabyte.)
 */
#include "port.h"
#include "wire.h"

void cortado_wire_start(void) {}

void cortado_wire_send(const uint8_t *data, size_t bytes) {
    uint8_t *const first = CORTADO_INPUT_DATA + ((CORTADO_INPUT->bytes + 15u) & ~15u);
    uint8_t *const to = first + CORTADO_INPUT->said;
    size_t i;

    if (bytes > (size_t)(cortado_input_end - to)) {
        CORTADO_INPUT->full = 1;
        cortado_port_stop(1);
    }
    for (i = 0; i < bytes; ++i) {
        to[i] = data[i];
    }
    __asm__ volatile("" ::: "memory"); /* the bytes before their number */
    CORTADO_INPUT->said += (uint32_t)bytes;
}
