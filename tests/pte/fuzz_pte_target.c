/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs cortado_pte_target over a pack of files: for each a 32-bit little-endian length and the bytes. Every file and
 * every target buffer is its own allocation of exactly its size, so that a sanitizer sees any step outside. Prints
 * one line per file: the code and the target. Exits 1 if the function breaks a promise of its header.
 */
#include "pte_target.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must_alloc(size_t size)
{
    void *memory = malloc(size);
    if (memory == NULL) {
        fputs("out of memory\n", stderr);
        exit(2);
    }
    return memory;
}

static void require(int condition, const char *promise)
{
    if (!condition) {
        fprintf(stderr, "broken promise: %s\n", promise);
        exit(1);
    }
}

/* One call with a target buffer of exactly `room` bytes that starts full of noise. */
static int call(const unsigned char *file, size_t size, char *result, size_t room)
{
    char *target = (char *)must_alloc(room);
    int code;
    memset(target, '#', room);
    code = cortado_pte_target(file, size, target, room);
    require(code <= 0 && code >= CORTADO_PTE_TARGET_TOO_LONG, "the code is a documented one");
    require(memchr(target, '\0', room) != NULL, "the target is terminated");
    require((code == CORTADO_PTE_OK) == (target[0] != '\0'), "the target is empty exactly on an error");
    strcpy(result, target);
    free(target);
    return code;
}

static void check_rooms(const unsigned char *file, size_t size, int code, const char *target)
{
    char result[CORTADO_PTE_TARGET_SIZE];
    size_t length = strlen(target);
    require(call(file, size, result, length + 1u) == code && strcmp(result, target) == 0, "an exact fit is enough");
    if (code == CORTADO_PTE_OK) {
        require(call(file, size, result, length) == CORTADO_PTE_TARGET_TOO_LONG, "one less is too little");
        require(call(file, size, result, 1u) == CORTADO_PTE_TARGET_TOO_LONG, "room for the zero alone is too little");
    }
}

static void check_arguments(void)
{
    char target[4] = "abc";
    require(cortado_pte_target(NULL, 0u, target, sizeof target) == CORTADO_PTE_BAD_ARGUMENT, "no file is refused");
    require(target[0] == '\0', "no file leaves an empty target");
    require(cortado_pte_target("x", 1u, NULL, 4u) == CORTADO_PTE_BAD_ARGUMENT, "no target is refused");
    require(cortado_pte_target("x", 1u, target, 0u) == CORTADO_PTE_BAD_ARGUMENT, "no room is refused");
    require(cortado_pte_target("x", 0u, target, sizeof target) == CORTADO_PTE_NOT_A_PTE, "no bytes are no .pte");
}

int main(int argc, char **argv)
{
    unsigned char head[4], *file;
    char target[CORTADO_PTE_TARGET_SIZE];
    size_t size;
    int code;
    FILE *pack = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (pack == NULL) {
        fputs("usage: fuzz_pte_target PACK\n", stderr);
        return 2;
    }
    check_arguments();
    while (fread(head, 1u, sizeof head, pack) == sizeof head) {
        size = (size_t)head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
        file = (unsigned char *)must_alloc(size != 0u ? size : 1u);
        if (fread(file, 1u, size, pack) != size) {
            fputs("the pack is cut off\n", stderr);
            return 2;
        }
        code = call(file, size, target, sizeof target);
        if (code != CORTADO_PTE_TARGET_TOO_LONG) {
            check_rooms(file, size, code, target);
        }
        printf("%d %s\n", code, target);
        free(file);
    }
    fclose(pack);
    return 0;
}
