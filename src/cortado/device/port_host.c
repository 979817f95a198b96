/* SPDX-License-Identifier: Apache-2.0
 *
 * The port on the development machine: the input on standard input, the records on standard output.
 */
#include "port.h"

#include <stdio.h>
#include <stdlib.h>

int cortado_port_read(void *data, size_t bytes) { return fread(data, 1, bytes, stdin) == bytes ? 0 : -1; }

void cortado_port_put(const uint8_t *data, size_t bytes) { (void)fwrite(data, 1, bytes, stdout); }

void cortado_port_stop(int code) { exit(code); }

uint32_t *cortado_port_stack_limit(void) { return NULL; }
