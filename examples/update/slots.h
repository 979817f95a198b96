/* Two slots for images in flash. One holds the model that runs; the next one is written to the other.
 *
 * A slot ends with a record, one unit of flash, which is written when all of the image is there and was checked. It is
 * the only thing that says that a slot holds a model: power that fails at any time before leaves the old one, after it
 * the new one. A slot's record is erased before anything else of it.
 */
#ifndef SLOTS_H
#define SLOTS_H

#include "flash.h"

#define SLOT_BYTES (64u * 1024u) /* the last page is the record's */
#define SLOT_ROOM (SLOT_BYTES - FLASH_PAGE)

typedef struct {
    uint32_t version, bytes;         /* of the model; of its image */
    uint32_t not_version, not_bytes; /* all bits turned: a record that was half written has others */
} slot_record_t;

extern uint8_t slots[2][SLOT_BYTES]; /* at a multiple of FLASH_PAGE */

/* What a slot holds; NULL: no complete image. */
const slot_record_t *slot_record(int slot);

/* The slot with the higher version that holds an image; -1: none does. */
int slot_newest(void);

void slot_erase(int slot);
/* `bytes` at `offset`, a multiple of FLASH_UNIT; what lies behind the end is 0xFF. */
void slot_write(int slot, uint32_t offset, const uint8_t *data, uint32_t bytes);
void slot_commit(int slot, uint32_t version, uint32_t bytes);

#endif
