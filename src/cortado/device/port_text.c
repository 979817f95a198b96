/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as text, on top of cortado_port_print: no stdio, so that a board of 16 KB RAM has room for the model.
 */
#include "port.h"

static void print_digits(uint32_t value, uint32_t base, int least) {
    char text[12];
    int at = (int)sizeof text - 1;

    text[at] = '\0';
    do {
        text[--at] = "0123456789abcdef"[value % base];
        value /= base;
        --least;
    } while (value != 0 || least > 0);
    cortado_port_print(&text[at]);
}

void cortado_port_print_unsigned(uint32_t value) { print_digits(value, 10, 1); }

void cortado_port_print_hex(uint32_t value) {
    cortado_port_print("0x");
    print_digits(value, 16, 8);
}
