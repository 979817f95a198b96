/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) { return __builtin_memcpy(to, from, bytes); }

void *memmove(void *to, const void *from, size_t bytes) { return __builtin_memmove(to, from, bytes); }

void *memset(void *to, int value, size_t bytes) { return __builtin_memset(to, value, bytes); }

int memcmp(const void *a, const void *b, size_t bytes) {
    const unsigned char *left = a;
    const unsigned char *right = b;
    size_t i;

    for (i = 0; i < bytes; ++i) {
        if (left[i] != right[i]) {
            return left[i] < right[i] ? -1 : 1;
        }
    }
    return 0;
}
