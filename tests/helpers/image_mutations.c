/* Opens mutated images and runs those that are taken: image, RAM and arena in blocks of their own, so that whatever is
 * read or written beside them ends the program. Arguments: the image, how many of its first bytes may change, a seed, how
 * many mutations. Prints how many ran. */
#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cortado_image.h"

#define MOST_ARENA (1u << 20) /* what this firmware has */
#define MOST_RAM (1u << 16)

static uint32_t seed;

static uint32_t drawn(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed % below;
}

static uint32_t crc32(const uint8_t *data, size_t bytes)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int k = 0; k < 8; k++) {
            crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
        }
    }
    return ~crc;
}

static void change(uint8_t *image, uint32_t room)
{
    static const uint32_t edges[] = {0, 1, 2, 3, 4, 8, 16, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF};
    for (uint32_t count = 1 + drawn(3); count > 0; count--) {
        const uint32_t at = drawn(room), sizes[] = {1, 2, 4};
        uint32_t size = sizes[drawn(3)], value = 0;
        uint32_t place = at / size * size;
        if (place + size > room) {
            continue;
        }
        memcpy(&value, image + place, size);
        switch (drawn(4)) {
        case 0: value ^= 1u << drawn(32); break;
        case 1: value = edges[drawn(sizeof edges / sizeof edges[0])]; break;
        case 2: value += drawn(2) ? 1u + drawn(16) : 0u - 1u - drawn(16); break;
        default: value = drawn(0xFFFFFFFFu);
        }
        memcpy(image + place, &value, size);
    }
}

static void use(cortado_model_t *model, uint32_t arena_bytes)
{
    uint8_t *arena = NULL;
    if (posix_memalign((void **)&arena, 16, arena_bytes) != 0) {
        exit(2);
    }
    memset(arena, 0x5A, arena_bytes);
    for (int i = 0; i < 255; i++) {
        const cortado_image_tensor_t *input = cortado_image_input_tensor(model, i);
        if (cortado_image_input(model, arena, i) != NULL) {
            memset(cortado_image_input(model, arena, i), 3 * i + 1, input->bytes);
        }
        const cortado_image_tensor_t *output = cortado_image_output_tensor(model, i);
        if (output != NULL && output->bytes > 0) {
            volatile uint8_t read = *(const uint8_t *)cortado_image_output(model, arena, i);
            (void)read;
        }
    }
    cortado_image_reset(model, arena);
    if (model->image->feeding == 0) {
        cortado_image_run(model, arena);
        cortado_image_run(model, arena);
    }
    for (int i = 0; i < 40; i++) {
        int8_t *row = cortado_image_row(model, arena);
        if (row != NULL) {
            memset(row, i, model->program.steps->out_row_bytes);
        }
        cortado_image_push(model, arena);
    }
    free(arena);
}

int main(int count, char **arguments)
{
    static uint8_t original[1 << 20];
    FILE *file = fopen(arguments[1], "rb");
    const size_t bytes = fread(original, 1, sizeof original, file);
    fclose(file);
    const uint32_t room = (uint32_t)strtoul(arguments[2], NULL, 10);
    seed = (uint32_t)strtoul(arguments[3], NULL, 10);
    const uint32_t mutations = (uint32_t)strtoul(arguments[4], NULL, 10);
    uint32_t ran = 0;
    (void)count;
    for (uint32_t i = 0; i <= mutations; i++) {
        uint8_t *image = NULL;
        if (posix_memalign((void **)&image, 16, bytes) != 0) {
            return 2;
        }
        memcpy(image, original, bytes);
        if (i > 0) { /* the first is as it was */
            change(image, room);
        }
        uint32_t says;
        memcpy(&says, image + 8, 4);
        const size_t to = says <= bytes && says >= 16 ? says : bytes;
        const uint32_t crc = crc32(image + 16, to - 16);
        memcpy(image + 12, &crc, 4);
        const uint32_t ram_bytes = cortado_image_ram(image, bytes);
        cortado_image_t head;
        memcpy(&head, image, sizeof head);
        if (ram_bytes != 0 && ram_bytes <= MOST_RAM && head.arena_bytes <= MOST_ARENA && head.arena_bytes > 0) {
            void *ram = malloc(ram_bytes);
            cortado_model_t model = {.ram = ram, .ram_bytes = ram_bytes};
            if (cortado_image_open(image, bytes, &model) == CORTADO_IMAGE_FINE) {
                use(&model, head.arena_bytes);
                ran++;
            } else if (i == 0) {
                return 3;
            }
            free(ram);
        }
        free(image);
    }
    printf("%u\n", (unsigned)ran);
    return 0;
}
