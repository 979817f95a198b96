/* SPDX-License-Identifier: Apache-2.0
 *
 * The port in WebAssembly: who runs the module (wasm/run.mjs) gives it these three functions, and no other.
 */
#include "port.h"

#define HOST(name) __attribute__((import_module("cortado"), import_name(name)))

HOST("read") int32_t cortado_host_read(void *to, size_t bytes);
HOST("put") void cortado_host_put(const void *from, size_t bytes);
HOST("stop") void cortado_host_stop(int32_t code) __attribute__((noreturn));

int cortado_port_read(void *data, size_t bytes) { return cortado_host_read(data, bytes); }

void cortado_port_put(const uint8_t *data, size_t bytes) { cortado_host_put(data, bytes); }

void cortado_port_stop(int code) { cortado_host_stop(code); }

uint32_t *cortado_port_stack_limit(void) { return NULL; }
