/* SPDX-License-Identifier: Apache-2.0
 *
 * Records, and numbers as text: no stdio, so that a board of 16 KB RAM has room for the model.
 */
#include "port.h"

enum { HEADER_BYTES = 5, MOST_BYTES = 256 };

static void word(uint8_t *to, uint32_t value) {
    int i;

    for (i = 0; i < 4; ++i) {
        to[i] = (uint8_t)(value >> (8 * i));
    }
}

/* The data is copied before the first byte leaves: should it not be readable, the fault's report finds no half record
 * in its way. */
void cortado_port_send(cortado_record_t kind, const void *data, size_t bytes) {
    static uint8_t record[HEADER_BYTES + MOST_BYTES];
    const uint8_t *from = data;

    while (bytes > 0) {
        const size_t now = bytes < MOST_BYTES ? bytes : MOST_BYTES;
        size_t i;

        record[0] = (uint8_t)kind;
        word(&record[1], (uint32_t)now);
        for (i = 0; i < now; ++i) {
            record[HEADER_BYTES + i] = from[i];
        }
        cortado_port_put(record, HEADER_BYTES + now);
        from += now;
        bytes -= now;
    }
}

void cortado_port_send_number(cortado_record_t kind, uint32_t value) {
    uint8_t bytes[4];

    word(bytes, value);
    cortado_port_send(kind, bytes, sizeof bytes);
}

void cortado_port_print(const char *text) {
    size_t length = 0;

    while (text[length] != '\0') {
        ++length;
    }
    cortado_port_send(CORTADO_RECORD_TEXT, text, length);
}

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

void cortado_port_exit(int code) {
    cortado_port_send_number(CORTADO_RECORD_EXIT, (uint32_t)code);
    cortado_port_stop(code);
}
