/* Two slots in flash for something that is replaced: images of the model, and its saved states. One slot holds what is
 * in use; the next one is written to the other.
 *
 * A slot ends with a record, one unit of flash, which is written when all of the content is there and was checked. It is
 * the only thing that says that a slot holds something: power that fails at any time before leaves the old one, after it
 * the new one. A slot's record is erased before anything else of it.
 */
#ifndef SLOTS_H
#define SLOTS_H

#include "flash.h"

typedef struct {
    uint8_t *flash; /* of the first slot, at a multiple of FLASH_PAGE; the other follows */
    uint32_t bytes; /* of a slot, whole pages: the last is the record's */
} slots_t;

#define SLOT_ROOM(bytes) ((bytes) - FLASH_PAGE)

typedef struct {
    uint32_t version, bytes;         /* of the content */
    uint32_t not_version, not_bytes; /* all bits turned: a record that was half written has others */
} slot_record_t;

uint8_t *slot_content(const slots_t *slots, int slot);

/* What a slot holds; NULL: nothing complete. */
const slot_record_t *slot_record(const slots_t *slots, int slot);

/* The slot with the higher version that holds something; -1: none does. */
int slot_newest(const slots_t *slots);

void slot_erase(const slots_t *slots, int slot);
/* `bytes` at `offset`, a multiple of FLASH_UNIT; what lies behind the end is 0xFF. */
void slot_write(const slots_t *slots, int slot, uint32_t offset, const uint8_t *data, uint32_t bytes);
void slot_commit(const slots_t *slots, int slot, uint32_t version, uint32_t bytes);

/* All of it at once, in place of the older content; returns the slot, or -1 if it is larger than one. */
int slot_replace(const slots_t *slots, const uint8_t *data, uint32_t bytes);

#endif
