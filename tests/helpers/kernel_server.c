/* SPDX-License-Identifier: Apache-2.0
 *
 * Firmware that makes the kernel calls a test describes.
 *
 * The input is an image of memory whose pointers already hold the addresses at which it lies (the test reads the address
 * of `cortado_input` from the ELF file). It starts with its size, the number of calls, and the calls: a function's
 * number in the table, seven argument words, a float (which the hard-float ABI passes apart) and room for the result. The
 * output is the image after the calls.
 */
#include "markers.h"
#include "port.h"
#include "wire.h"

#include <stdint.h>

typedef uint32_t (*kernel_t)(uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, float);

typedef struct {
    uint32_t kernel, args[7];
    float number;
    uint32_t result; /* what the call returned */
} call_t;

extern const kernel_t kernel_table[];

int main(void) {
    uint8_t *const image = CORTADO_INPUT_DATA;
    const uint32_t *header = (const uint32_t *)(void *)image;
    call_t *call = (call_t *)(void *)(image + 2 * sizeof *header);

    cortado_marker_begin();
    for (uint32_t i = 0; i < header[1]; i++, call++) {
        const kernel_t kernel = kernel_table[call->kernel];
        cortado_marker_step();
        call->result =
            kernel(call->args[0], call->args[1], call->args[2], call->args[3], call->args[4], call->args[5], call->args[6],
                   call->number);
    }
    cortado_marker_step();
    cortado_marker_end();
    cortado_port_send(CORTADO_RECORD_OUTPUT, image, header[0]);
    return 0;
}
