/* SPDX-License-Identifier: Apache-2.0
 *
 * tiny for cortex-m0plus, written by Cortado 0.2.0.dev0: its sizes, inputs, outputs and functions.
 */
#ifndef TINY_H
#define TINY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__has_include)
#if __has_include("cortado_settings.h") /* for build systems that can't set flags */
#include "cortado_settings.h"
#endif
#endif

/* A program has one set of kernels, of one version. */
#if defined(CORTADO_VERSION_NUMBER) && (CORTADO_VERSION_NUMBER != 200 || CORTADO_LIBRARY != 0x00000000u)
#error "bundles of different versions of Cortado in one program: compile all models with one version"
#endif
#define CORTADO_VERSION_NUMBER 200
#define CORTADO_LIBRARY 0x00000000u
#if defined(CORTADO_KERNELS_OF) && CORTADO_KERNELS_OF != 0xdb5a6b2cu
#error "two Cortado bundles with kernels of their own in one program: compile the models with --together DIR"
#endif
#define CORTADO_KERNELS_OF 0xdb5a6b2cu

#ifdef __cplusplus
extern "C" {
#endif

/* The version of Cortado that wrote this; as a number, 10000 * major + 100 * minor + patch. */
#define TINY_VERSION "0.2.0.dev0"
#define TINY_VERSION_NUMBER 200
#define TINY_TARGET "cortex-m0plus"

/* Identifies the model: a hash of what it computes, its version (given, or derived from the hash), and the compile
 * that wrote this file. */
#define TINY_ID "b067a3e2c31f25cc"
#define TINY_MODEL_VERSION "0.45159.41954"
#define TINY_BUILD 0x00000000u
/* The name contains the build, so that files of different compiles don't link. If a program binds functions by name,
 * define CORTADO_PLAIN_NAMES for all sources. */
#if defined(CORTADO_ENABLE_RUNTIME_CHECKS) /* for all sources, or none */
#define tiny_run tiny_run_00000000_with_runtime_checks
#elif !defined(CORTADO_PLAIN_NAMES)
#define tiny_run tiny_run_00000000
#endif

#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
#define TINY_ARENA_BYTES 404
#else
#define TINY_ARENA_BYTES 196
#endif
#ifdef CORTADO_CACHE_LINE /* bytes: the arena occupies whole lines of the data cache, shared with no other variable */
#if CORTADO_CACHE_LINE % 16 != 0
#error "CORTADO_CACHE_LINE is the length of a line of the data cache: 32 on most cores, a multiple of 16"
#endif
#define TINY_ARENA_ALIGN CORTADO_CACHE_LINE
#else
#define TINY_ARENA_ALIGN 16
#endif
/* The most stack that a call takes, without interrupts and runtime checks, as compiled by arm-none-eabi-gcc with the
 * flags of CMakeLists.txt. -Os and -O3 take at most TINY_STACK_MARGIN_BYTES more. */
#define TINY_STACK_BYTES N
#define TINY_STACK_MARGIN_BYTES 320
#define TINY_INPUTS 1
#define TINY_OUTPUTS 1

/* The arena: a variable of this type has the right size and alignment. The compiler rejects a pointer to anything
 * else (some only warn: -Wincompatible-pointer-types); tiny_arena accepts other memory. */
typedef union {
    uint8_t bytes[TINY_ARENA_BYTES];
    uint64_t align;
} __attribute__((aligned(TINY_ARENA_ALIGN))) tiny_arena_t;


/* SHAPE is in memory order; LAYOUT lists the model's dimensions in that order. An int8 value q stands for the real
 * number SCALE * (q - ZERO_POINT). */

/* x: int8, [1, 1, 6, 6] as in the model */
#define TINY_INPUT0_TYPE int8_t
#define TINY_INPUT0_BYTES 36
#define TINY_INPUT0_SHAPE {1, 1, 6, 6}
#define TINY_INPUT0_LAYOUT {0, 1, 2, 3}
#define TINY_INPUT0_SCALE 0.00784313772f
#define TINY_INPUT0_ZERO_POINT (-1)

/* output0: int8, [1, 3] as in the model */
#define TINY_OUTPUT0_TYPE int8_t
#define TINY_OUTPUT0_BYTES 3
#define TINY_OUTPUT0_SHAPE {1, 3}
#define TINY_OUTPUT0_LAYOUT {0, 1}
#define TINY_OUTPUT0_SCALE 0.00114761048f
#define TINY_OUTPUT0_ZERO_POINT (127)

/* A description of a model, the same type for all models. */
#ifndef CORTADO_MODEL_INFO
#define CORTADO_MODEL_INFO
typedef struct {
    const char *name;
    const char *type; /* in C: "int8_t" */
    uint32_t bytes;
    uint32_t dims;
    const uint32_t *shape;  /* [dims], in memory order */
    const uint32_t *layout; /* [dims]: the model's dimensions in that order */
    float scale;            /* 0: the values are not codes */
    int32_t zero_point;
} cortado_tensor_info_t;

typedef struct {
    const char *name, *id, *version, *target, *cortado_version;
    uint32_t build;
    uint32_t arena_bytes;
    uint32_t inputs, outputs;
    const cortado_tensor_info_t *input;  /* [inputs] */
    const cortado_tensor_info_t *output; /* [outputs] */
} cortado_model_info_t;
#endif

/* Describes the model: name, id, version, shapes and scales. Linked only if used. */
const cortado_model_info_t *tiny_info(void);

/* Uses other memory as an arena. Returns NULL, which every function rejects, unless the memory has at least
 * TINY_ARENA_BYTES bytes and is aligned to TINY_ARENA_ALIGN. */
tiny_arena_t *tiny_arena(void *memory, size_t bytes);

/* Returns where to write input i, before tiny_run. NULL if there is no such input, or no arena. */
int8_t *tiny_input(tiny_arena_t *arena, int i);

/* Runs the network once and overwrites its inputs. Returns 0; or 1, without doing anything, if the arena is NULL or
 * not aligned to TINY_ARENA_ALIGN bytes. */
int tiny_run(tiny_arena_t *arena);

/* Returns output i, after tiny_run. NULL if there is no such output, or no arena. */
const int8_t *tiny_output(const tiny_arena_t *arena, int i);

/* A static arena of the right size and alignment. Linked only if used. */
tiny_arena_t *tiny_default_arena(void);

/* Real numbers in, real numbers out, for int8 tensors. They convert numbers only: values keep the order of dimensions
 * given above. Without an arena, or for an i that is not an int8 tensor, they do nothing. Linked only if used. */
void tiny_quantize_input(tiny_arena_t *arena, int i, const float *values);
/* The same for bytes from a camera, without a copy of the picture in real numbers: byte b of channel c stands for b
 * * gain[c] + offset[c]. Channels are last. The bytes may be where the codes go. */
void tiny_quantize_input_u8(tiny_arena_t *arena, int i, const uint8_t *values, int channels, const float *gain,
                            const float *offset);
void tiny_dequantize_output(const tiny_arena_t *arena, int i, float *values);

/* One number, by the SCALE and ZERO_POINT of its tensor, with the same bits as above. */
static inline int8_t tiny_quantize(float value, float scale, int32_t zero_point)
{
    float v = value * (1.0f / scale);
    v = v > -512.0f ? (v < 512.0f ? v : 512.0f) : (v <= -512.0f ? -512.0f : 0.0f);
    v += 12582912.0f; /* rounds to nearest, ties to even */
    int32_t code;
    (void)memcpy(&code, &v, sizeof code);
    code += zero_point - 0x4B400000;
    return (int8_t)(code < -128 ? -128 : code > 127 ? 127 : code);
}

static inline float tiny_dequantize(int8_t code, float scale, int32_t zero_point)
{
    return (float)(code - zero_point) * scale;
}

#ifdef CORTADO_PROFILE
/* You define this: tiny_run calls it before each kernel call, with the number of the step, and with TINY_STEPS at
 * the end. Read a cycle counter there. */
#define TINY_STEPS 3u
void tiny_profile(uint32_t step);
extern const char *const tiny_step_names[TINY_STEPS];
#endif

#ifdef CORTADO_CHECK_RANGES
/* For each tensor, how many values were at an end of its range, where they may have saturated. Counts add up over
 * all runs and arenas; set them to 0 to start again. */
#define TINY_RANGES 4u
extern uint32_t tiny_saturated[4];
extern const char *const tiny_range_names[4];
#endif

#ifdef __cplusplus
}
#endif

#endif /* TINY_H */
