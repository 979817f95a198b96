/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORTADO_SEMIHOSTING_H
#define CORTADO_SEMIHOSTING_H

#include <stddef.h>

/* The words the emulator was given, separated by spaces. 0, or -1 if they don't fit. */
int cortado_semihosting_command_line(char *buffer, size_t size);

#endif
