/* SPDX-License-Identifier: Apache-2.0
 *
 * A network as an image: one block of bytes, MODEL.cortado, that is opened where it lies and run by the kernels that
 * the firmware has. Its constants stay in flash; the tables that hold pointers are copied to RAM of yours.
 *
 *     static uint64_t ram[RAM_BYTES / 8];
 *     cortado_model_t model = {.ram = ram, .ram_bytes = sizeof ram};
 *     if (cortado_image_open(image, bytes, &model) == CORTADO_IMAGE_FINE) {
 *         memcpy(cortado_image_input(&model, arena, 0), ...);
 *         cortado_image_run(&model, arena);
 *     }
 *
 * A damaged image is refused, and so is one of another format, core or version, or one that needs a kernel which is
 * not in cortado_kernels.c. Every table, offset and size is checked before it is used. What kernels read in their
 * descriptors is as trusted as code: take images only from those whose code you would run.
 */
#ifndef CORTADO_IMAGE_H
#define CORTADO_IMAGE_H

#include "cortado_saved.h"
#include "cortado_stream.h"

#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
#error "an image has the tables of a release build: leave CORTADO_ENABLE_RUNTIME_CHECKS out"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define CORTADO_IMAGE_FORMAT 1
#define CORTADO_IMAGE_ALIGN 16 /* alignment of an image and of an arena */

typedef enum {
    CORTADO_IMAGE_FINE = 0,
    CORTADO_IMAGE_NOT_ONE,  /* these bytes are no image, or it doesn't lie at a multiple of CORTADO_IMAGE_ALIGN */
    CORTADO_IMAGE_FORMAT_UNKNOWN,
    CORTADO_IMAGE_CUT_OFF,  /* it says that it is longer */
    CORTADO_IMAGE_DAMAGED,  /* its CRC is not that of its bytes */
    CORTADO_IMAGE_CORE,     /* it is for another kind of core */
    CORTADO_IMAGE_VERSION,  /* it is for the kernels of another version */
    CORTADO_IMAGE_RAM,      /* model->ram is too small, NULL or not aligned to 8 bytes: see cortado_image_ram */
    CORTADO_IMAGE_KERNEL,   /* the firmware doesn't have a kernel: model->missing */
    CORTADO_IMAGE_WRONG     /* its tables contradict themselves, or leave image or arena */
} cortado_image_error_t;

/* The header of an image. Offsets count from its first byte, 0 means none; everything is little-endian. */
typedef struct {
    uint8_t magic[4]; /* "CTDO" */
    uint16_t format;
    uint8_t pointer_bytes;
    uint8_t core;      /* CORTADO_IMAGE_THIS_CORE */
    uint32_t bytes;    /* of the image */
    uint32_t crc;      /* CRC-32 of all bytes behind this word */
    uint16_t kernels;  /* version of the kernels: 100 * major + minor */
    uint8_t inputs, outputs;
    uint16_t resets, moves;
    uint16_t thunks, stages, ports, steps;
    uint16_t longest, widest; /* steps of a stage, rows of a call */
    uint8_t feeding;          /* 0: inputs come whole; 1: row by row; 2: an endless stream of rows */
    uint8_t methods;          /* further ones, whose images begin behind this header: see cortado_image_method */
    uint16_t window, hop, first, warm_up;          /* of a stream, in rows */
    uint16_t tensor, state, thunk, call, stage;    /* tables: places in words of 4 bytes */
    uint32_t arena_bytes;
    uint32_t state_bytes; /* the first bytes of the arena, which last from run to run */
    uint32_t ram_bytes;   /* that cortado_image_open needs */
    uint32_t name, target; /* texts */
    uint32_t port, step;
    uint32_t tables_bytes; /* from `step` on: what is copied to RAM */
} cortado_image_t;

/* The table `tensor`, inputs first. An input or output: `rank` sizes at `shape`, and behind them as many bytes:
 * the model's dimensions in that order. */
typedef struct {
    uint32_t offset, bytes; /* in the arena */
    float scale;            /* 0: its values are no codes */
    uint32_t name, shape;
    int16_t zero_point;
    uint8_t element; /* 0: int8, 1: int16, 2: int32, 3: uint8, 4: truth values, 5: float */
    uint8_t rank;
} cortado_image_tensor_t;

/* The table `state`, first what reset sets. A piece of state: what it begins with, a place in the image or one
 * byte for all; or, behind a run, from where in the arena it takes its next value. Behind them, where there is state,
 * one row more: the id of the model in place of offset and bytes, and for `from` the hash of the state's layout. */
typedef struct {
    uint32_t offset, bytes, from;
    uint32_t fill; /* where `from` is 0 */
} cortado_image_state_t;

/* The layout of a descriptor. */
typedef struct cortado_structure {
    uint16_t bytes;
    uint32_t pointers;                  /* bit i: its word i, of a pointer's size, is one */
    const struct cortado_structure *to; /* NULL: they point to constants */
} cortado_structure_t;

typedef struct {
    uint32_t id;
    cortado_call_t call;
    const cortado_structure_t *layer; /* NULL: it reads none */
} cortado_thunk_t;

/* The kernels of this firmware, in cortado_kernels.c. */
extern const cortado_thunk_t cortado_thunks[];
extern const uint32_t cortado_thunk_count;

/* A descriptor's bytes in whole words, what stands behind it, and the bits of a member that is one pointer or more. */
#define CORTADO_WORDS(type) ((uint16_t)((sizeof(type) + 3u) & ~(size_t)3u))
#define CORTADO_BEHIND(layer, type) ((const void *)((const uint8_t *)(layer) + CORTADO_WORDS(type)))
#define CORTADO_POINTERS(type, member, count) \
    (((1u << (count)) - 1u) << (offsetof(type, member) / sizeof(void *)))

/* An image that is open. */
typedef struct {
    void *ram; /* yours, aligned to 8 bytes, set before cortado_image_open; nobody else's while this is open */
    uint32_t ram_bytes;
    const cortado_image_t *image;
    const char *missing; /* the first kernel that the firmware doesn't have */
    cortado_program_t program;
    union {
        cortado_state_t *rows;
        cortado_stream_state_t *stream;
    } state;             /* where the steps stand; of inputs that come row by row, between two rows too */
    const int8_t **rows;
    uint32_t count;      /* rows that came */
} cortado_model_t;

/* Bytes of RAM that an image needs to be open, beside its arena; 0 where the bytes are no image. */
uint32_t cortado_image_ram(const void *image, size_t bytes);

/* Checks an image and makes it ready to run. Reads all of it once. */
cortado_image_error_t cortado_image_open(const void *image, size_t bytes, cortado_model_t *model);

/* The same of bytes of which cortado_image_ram did not say 0: they are not read for their CRC again. */
cortado_image_error_t cortado_image_open_checked(const void *image, cortado_model_t *model);

/* The image of a further method, by its name; NULL if the open image of the model has none of that name. Open it like
 * any other, by cortado_image_open_checked where the model's was checked as a whole, with `ram` of its own. All methods
 * are for one arena, with the same state:
 *
 *     const cortado_image_t *learn = cortado_image_method(&model, "learn");
 *     if (learn != NULL && cortado_image_open(learn, learn->bytes, &learning) == CORTADO_IMAGE_FINE) ...
 */
const cortado_image_t *cortado_image_method(const cortado_model_t *model, const char *name);

/* An input or output of an open image; NULL if there is none of this number. */
const cortado_image_tensor_t *cortado_image_input_tensor(const cortado_model_t *model, int i);
const cortado_image_tensor_t *cortado_image_output_tensor(const cortado_model_t *model, int i);

/* These are MODEL_input, MODEL_run, MODEL_output and MODEL_reset of a bundle. The arena has model->image->arena_bytes.
 * Of inputs that come row by row there is no place. */
void *cortado_image_input(const cortado_model_t *model, void *arena, int i);
int cortado_image_run(const cortado_model_t *model, void *arena);
const void *cortado_image_output(const cortado_model_t *model, const void *arena, int i);
void cortado_image_reset(cortado_model_t *model, void *arena);

/* MODEL_state_bytes, MODEL_save, MODEL_load and MODEL_adopt; 0, and CORTADO_LOAD_LAYOUT, of a model without state. What
 * lasts of a stream is not saved: it is about rows that came a moment ago. Linked only if used. */
uint32_t cortado_image_state_bytes(const cortado_model_t *model);
uint32_t cortado_image_save(const cortado_model_t *model, const void *arena, void *out);
cortado_load_t cortado_image_load(const cortado_model_t *model, void *arena, const void *in, size_t bytes);
cortado_load_t cortado_image_adopt(const cortado_model_t *model, void *arena, const void *in, size_t bytes);

/* MODEL_row and MODEL_push. Where a stream stands is in the model's RAM. */
int8_t *cortado_image_row(const cortado_model_t *model, void *arena);
int cortado_image_push(cortado_model_t *model, void *arena);

/* Real numbers in, real numbers out, for tensors of codes. Linked only if used. */
void cortado_image_quantize_input(const cortado_model_t *model, void *arena, int i, const float *values);
void cortado_image_dequantize_output(const cortado_model_t *model, const void *arena, int i, float *values);

#ifdef __cplusplus
}
#endif

#endif /* CORTADO_IMAGE_H */
