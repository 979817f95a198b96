/* SPDX-License-Identifier: Apache-2.0
 *
 * State outside of the arena: to flash and back. A saved state is six words, little-endian, and then the pieces of
 * state one behind the other, without what lies between them in the arena: it is the same for every core, plan and
 * build.
 */
#ifndef CORTADO_SAVED_H
#define CORTADO_SAVED_H

#include <stddef.h>
#include <stdint.h>

#include "cortado_endian.h"
#include "cortado_version.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef CORTADO_LOAD
#define CORTADO_LOAD
/* The result of loading a saved state. All but the first leave the arena unchanged. */
typedef enum {
    CORTADO_LOAD_FINE = 0,
    CORTADO_LOAD_ARENA,   /* the arena is NULL or not aligned */
    CORTADO_LOAD_NOT_ONE, /* these bytes are no saved state */
    CORTADO_LOAD_CUT_OFF, /* it says that it is longer */
    CORTADO_LOAD_DAMAGED, /* its CRC is not that of its bytes */
    CORTADO_LOAD_MODEL,   /* another model wrote it */
    CORTADO_LOAD_LAYOUT   /* its pieces have other names, types, shapes or scales */
} cortado_load_t;
#endif

#define CORTADO_SAVED_HEAD_BYTES 24u

/* The state of a model. */
typedef struct {
    const uint32_t *pieces; /* [count * words]: of each, its offset in the arena and its bytes, and more */
    uint32_t count, words;
    uint32_t layout; /* a hash of what the pieces mean */
    uint32_t id[2];  /* of the model */
} cortado_saved_t;

#define cortado_save CORTADO_VERSIONED(cortado_save)
#define cortado_load CORTADO_VERSIONED(cortado_load)
#define cortado_saved_bytes CORTADO_VERSIONED(cortado_saved_bytes)

/* The bytes that cortado_save writes. */
uint32_t cortado_saved_bytes(const cortado_saved_t *saved);

/* Writes the state of an arena to any address; returns cortado_saved_bytes. */
uint32_t cortado_save(const cortado_saved_t *saved, const uint8_t *arena, void *out);

/* Gives an arena the state that was saved, from any address; `bytes` may be more than it has. `any_model`: one that
 * another model wrote is taken too, if its layout is the same. */
cortado_load_t cortado_load(const cortado_saved_t *saved, uint8_t *arena, const void *in, size_t bytes, int any_model);

#ifdef __cplusplus
}
#endif

#endif /* CORTADO_SAVED_H */
