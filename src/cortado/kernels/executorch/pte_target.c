/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks a .pte (a FlatBuffer) from its root to the text that the constant method "cortado" returns, and takes the
 * value of "target" out of that JSON text. Every position is checked against the size before it is read, and numbers
 * are put together from bytes, so neither alignment nor the byte order of the core matters.
 */
#include "pte_target.h"

#include <stdint.h>
#include <string.h>

/* Slots in ExecuTorch's program.fbs. */
enum {
    PROGRAM_EXECUTION_PLAN = 1,
    PLAN_NAME = 0,
    PLAN_VALUES = 2,
    PLAN_OUTPUTS = 4,
    EVALUE_TYPE = 0,
    EVALUE_VALUE = 1,
    STRING_TEXT = 0
};

#define KERNEL_TYPE_STRING 6u
#define EXTENDED_HEADER_MIN 24u

typedef struct {
    const uint8_t *data;
    uint32_t size;
} bytes_t;

/* Is [at, at + count) inside? */
static int holds(bytes_t in, uint32_t at, uint32_t count)
{
    return at <= in.size && count <= in.size - at;
}

static uint32_t get16(bytes_t in, uint32_t at)
{
    return (uint32_t)in.data[at] | ((uint32_t)in.data[at + 1u] << 8);
}

static uint32_t get32(bytes_t in, uint32_t at)
{
    return get16(in, at) | (get16(in, at + 2u) << 16);
}

/* Where the offset stored at `at` leads; 0 if that is outside. (Nothing is ever stored at byte 0.) */
static uint32_t follow(bytes_t in, uint32_t at)
{
    uint32_t offset;
    if (!holds(in, at, 4u)) {
        return 0u;
    }
    offset = get32(in, at);
    return offset != 0u && offset < in.size - at ? at + offset : 0u;
}

/* The position of a field of `width` bytes; 0 if the table does not have it or does not lie inside. */
static uint32_t field(bytes_t in, uint32_t table, uint32_t slot, uint32_t width)
{
    uint32_t vtable, vtable_size, table_size, offset;
    if (!holds(in, table, 4u)) {
        return 0u;
    }
    vtable = table - get32(in, table); /* signed in the file; modulo 2^32 it is the same */
    if (!holds(in, vtable, 4u)) {
        return 0u;
    }
    vtable_size = get16(in, vtable);
    table_size = get16(in, vtable + 2u);
    if (!holds(in, vtable, vtable_size) || !holds(in, table, table_size) || 4u + 2u * slot + 2u > vtable_size) {
        return 0u;
    }
    offset = get16(in, vtable + 4u + 2u * slot);
    return offset >= 4u && offset + width <= table_size ? table + offset : 0u;
}

/* A vector field with elements of 1 << log_width bytes: the position of its first element and its length; 0 if it is
 * absent or does not lie inside. (A shift, because small cores divide in software.) */
static uint32_t vector(bytes_t in, uint32_t table, uint32_t slot, uint32_t log_width, uint32_t *length)
{
    uint32_t at = field(in, table, slot, 4u);
    at = at != 0u ? follow(in, at) : 0u;
    if (at == 0u || !holds(in, at, 4u)) {
        return 0u;
    }
    *length = get32(in, at);
    return *length <= (in.size - at - 4u) >> log_width ? at + 4u : 0u;
}

/* The FlatBuffer part of the file. */
static int open_program(const void *pte, size_t size, bytes_t *program)
{
    bytes_t file;
    file.data = (const uint8_t *)pte;
    file.size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
    if (file.size < 8u || memcmp(file.data + 4, "ET12", 4u) != 0) {
        return CORTADO_PTE_NOT_A_PTE;
    }
    if (file.size >= 12u && memcmp(file.data + 8, "eh00", 4u) == 0) {
        /* magic, length of this header, 64-bit size of the FlatBuffer, ... */
        if (file.size < 8u + EXTENDED_HEADER_MIN || get32(file, 12u) < EXTENDED_HEADER_MIN || get32(file, 20u) != 0u ||
            get32(file, 16u) > file.size) {
            return CORTADO_PTE_DAMAGED;
        }
        file.size = get32(file, 16u);
    }
    *program = file;
    return CORTADO_PTE_OK;
}

/* The method called "cortado". */
static int find_method(bytes_t in, uint32_t *method)
{
    static const char name[] = "cortado";
    const uint32_t name_length = (uint32_t)sizeof name - 1u;
    uint32_t i, count, length, text, plan;
    uint32_t root = follow(in, 0u);
    uint32_t plans = root != 0u ? vector(in, root, PROGRAM_EXECUTION_PLAN, 2u, &count) : 0u;
    if (plans == 0u) {
        return CORTADO_PTE_DAMAGED;
    }
    for (i = 0u; i < count; i++) {
        plan = follow(in, plans + 4u * i);
        if (plan == 0u) {
            return CORTADO_PTE_DAMAGED;
        }
        text = vector(in, plan, PLAN_NAME, 0u, &length);
        if (text != 0u && length == name_length && memcmp(in.data + text, name, name_length) == 0) {
            *method = plan;
            return CORTADO_PTE_OK;
        }
    }
    return CORTADO_PTE_NO_TARGET;
}

/* The text that a method without instructions returns: its one output is the index of a string among its values. */
static int find_text(bytes_t in, uint32_t method, bytes_t *text)
{
    uint32_t at, count, index, type, string;
    at = vector(in, method, PLAN_OUTPUTS, 2u, &count);
    if (at == 0u || count != 1u) {
        return CORTADO_PTE_DAMAGED;
    }
    index = get32(in, at);
    at = vector(in, method, PLAN_VALUES, 2u, &count);
    if (at == 0u || index >= count) {
        return CORTADO_PTE_DAMAGED;
    }
    at = follow(in, at + 4u * index);
    type = at != 0u ? field(in, at, EVALUE_TYPE, 1u) : 0u;
    string = at != 0u ? field(in, at, EVALUE_VALUE, 4u) : 0u;
    if (type == 0u || in.data[type] != KERNEL_TYPE_STRING || string == 0u) {
        return CORTADO_PTE_DAMAGED;
    }
    string = follow(in, string);
    at = string != 0u ? vector(in, string, STRING_TEXT, 0u, &count) : 0u;
    if (at == 0u) {
        return CORTADO_PTE_DAMAGED;
    }
    text->data = in.data + at;
    text->size = count;
    return CORTADO_PTE_OK;
}

static uint32_t skip_spaces(bytes_t json, uint32_t at)
{
    while (at < json.size &&
           (json.data[at] == ' ' || json.data[at] == '\t' || json.data[at] == '\n' || json.data[at] == '\r')) {
        at++;
    }
    return at;
}

/* The position of the quote that closes the string whose first character is at `at`, or the text's size. */
static uint32_t string_end(bytes_t json, uint32_t at)
{
    while (at < json.size && json.data[at] != '"') {
        at += json.data[at] == '\\' && at + 1u < json.size ? 2u : 1u;
    }
    return at;
}

/* The string after `"target":`, whose key ended just before `at`. Cortado writes it without escapes. */
static int read_target(bytes_t json, uint32_t at, bytes_t *target)
{
    uint32_t i, end;
    at = skip_spaces(json, at);
    if (at >= json.size || json.data[at] != ':') {
        return CORTADO_PTE_DAMAGED;
    }
    at = skip_spaces(json, at + 1u);
    if (at >= json.size || json.data[at] != '"') {
        return CORTADO_PTE_DAMAGED;
    }
    at++;
    end = string_end(json, at);
    if (end >= json.size || end == at) {
        return CORTADO_PTE_DAMAGED;
    }
    for (i = at; i < end; i++) {
        if (json.data[i] <= ' ' || json.data[i] > '~' || json.data[i] == '\\') {
            return CORTADO_PTE_DAMAGED;
        }
    }
    target->data = json.data + at;
    target->size = end - at;
    return CORTADO_PTE_OK;
}

/* The value of the outermost object's key "target". Strings may hold anything, so they are skipped as wholes. */
static int find_target(bytes_t json, bytes_t *target)
{
    uint32_t depth = 0u, end, at = skip_spaces(json, 0u);
    int key_next = 0;
    if (at >= json.size || json.data[at] != '{') {
        return CORTADO_PTE_DAMAGED;
    }
    for (; at < json.size; at++) {
        switch (json.data[at]) {
        case '{':
        case '[':
            depth++;
            key_next = depth == 1u;
            break;
        case '}':
        case ']':
            depth--;
            if (depth == 0u) {
                return CORTADO_PTE_NO_TARGET;
            }
            break;
        case ',':
            key_next = depth == 1u;
            break;
        case '"':
            end = string_end(json, at + 1u);
            if (end >= json.size) {
                return CORTADO_PTE_DAMAGED;
            }
            if (key_next && end - at == 7u && memcmp(json.data + at, "\"target", 7u) == 0) {
                return read_target(json, end + 1u, target);
            }
            key_next = 0;
            at = end;
            break;
        default:
            break;
        }
    }
    return CORTADO_PTE_DAMAGED;
}

int cortado_pte_target(const void *pte, size_t size, char *target, size_t target_size)
{
    bytes_t program, json, value;
    uint32_t method;
    int result;
    if (target == NULL || target_size == 0u) {
        return CORTADO_PTE_BAD_ARGUMENT;
    }
    target[0] = '\0';
    if (pte == NULL) {
        return CORTADO_PTE_BAD_ARGUMENT;
    }
    result = open_program(pte, size, &program);
    if (result == CORTADO_PTE_OK) {
        result = find_method(program, &method);
    }
    if (result == CORTADO_PTE_OK) {
        result = find_text(program, method, &json);
    }
    if (result == CORTADO_PTE_OK) {
        result = find_target(json, &value);
    }
    if (result != CORTADO_PTE_OK) {
        return result;
    }
    if (value.size >= target_size) {
        return CORTADO_PTE_TARGET_TOO_LONG;
    }
    memcpy(target, value.data, value.size);
    target[value.size] = '\0';
    return CORTADO_PTE_OK;
}
