/* SPDX-License-Identifier: Apache-2.0
 *
 * PROGRAM input.bin output.bin: firmware that makes the kernel calls a test describes.
 *
 * The input file is an image of memory whose pointers already hold this firmware's addresses (the test reads the
 * address of `image` from the ELF file). It starts with its size, the number of calls, and the calls: a function's
 * number in the table, six argument words, a float (which the hard-float ABI passes apart) and room for the result. The
 * output file is the image after the calls.
 */
#include "markers.h"
#include "port.h"

#include <stdint.h>

typedef uint32_t (*kernel_t)(uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, float);

typedef struct {
    uint32_t kernel, args[6];
    float number;
    uint32_t result; /* what the call returned */
} call_t;

extern const kernel_t kernel_table[];
extern uint8_t image[];

__attribute__((section(".bigram"), aligned(16))) uint8_t image[IMAGE_BYTES];

int main(int argc, char **argv) {
    uint32_t header[2];
    call_t *call = (call_t *)(image + sizeof header);
    const int source = argc == 3 ? cortado_port_open(argv[1], CORTADO_PORT_READ) : -1;
    const int sink = argc == 3 ? cortado_port_open(argv[2], CORTADO_PORT_WRITE) : -1;

    if (source < 0 || sink < 0 || cortado_port_read(source, header, sizeof header) != 0 || header[0] > IMAGE_BYTES ||
        cortado_port_read(source, image + sizeof header, header[0] - sizeof header) != 0) {
        cortado_port_print("cannot read the image\n");
        return 1;
    }
    cortado_marker_begin();
    for (uint32_t i = 0; i < header[1]; i++, call++) {
        const kernel_t kernel = kernel_table[call->kernel];
        cortado_marker_step();
        call->result =
            kernel(call->args[0], call->args[1], call->args[2], call->args[3], call->args[4], call->args[5], call->number);
    }
    cortado_marker_step();
    cortado_marker_end();
    return cortado_port_write(sink, image, header[0]) != 0 || cortado_port_close(sink) != 0;
}
