/* SPDX-License-Identifier: Apache-2.0
 *
 * The port on the development machine's C library, so that the same harness runs there.
 */
#include "port.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_FILES = 4 };

static FILE *files[MAX_FILES];

int cortado_port_open(const char *path, int mode) {
    int handle = 0;

    while (handle < MAX_FILES && files[handle] != NULL) {
        ++handle;
    }
    if (handle == MAX_FILES) {
        return -1;
    }
    files[handle] = fopen(path, mode == CORTADO_PORT_WRITE ? "wb" : "rb");
    return files[handle] == NULL ? -1 : handle;
}

int cortado_port_read(int handle, void *data, size_t bytes) {
    return fread(data, 1, bytes, files[handle]) == bytes ? 0 : -1;
}

int cortado_port_write(int handle, const void *data, size_t bytes) {
    return fwrite(data, 1, bytes, files[handle]) == bytes ? 0 : -1;
}

int cortado_port_close(int handle) {
    const int status = fclose(files[handle]);

    files[handle] = NULL;
    return status == 0 ? 0 : -1;
}

void cortado_port_print(const char *text) { (void)fputs(text, stdout); }

void cortado_port_exit(int code) { exit(code); }

uint32_t *cortado_port_stack_limit(void) { return NULL; }
