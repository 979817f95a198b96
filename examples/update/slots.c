#include "slots.h"

#include <string.h>

const slot_record_t *slot_record(int slot)
{
    const slot_record_t *record = (const slot_record_t *)(const void *)(slots[slot] + SLOT_ROOM);
    const int whole = record->version == ~record->not_version && record->bytes == ~record->not_bytes;
    return whole && record->bytes <= SLOT_ROOM ? record : NULL;
}

int slot_newest(void)
{
    const slot_record_t *first = slot_record(0), *second = slot_record(1);
    if (first == NULL || second == NULL) {
        return first != NULL ? 0 : second != NULL ? 1 : -1;
    }
    return second->version > first->version ? 1 : 0;
}

void slot_erase(int slot)
{
    for (uint32_t end = SLOT_BYTES; end > 0; end -= FLASH_PAGE) { /* the record first */
        flash_erase(slots[slot] + end - FLASH_PAGE);
    }
}

void slot_write(int slot, uint32_t offset, const uint8_t *data, uint32_t bytes)
{
    for (uint32_t at = 0; at < bytes; at += FLASH_UNIT) {
        const uint32_t left = bytes - at;
        uint8_t unit[FLASH_UNIT];
        memset(unit, 0xFF, sizeof unit);
        memcpy(unit, data + at, left < FLASH_UNIT ? left : FLASH_UNIT);
        flash_write(slots[slot] + offset + at, unit);
    }
}

void slot_commit(int slot, uint32_t version, uint32_t bytes)
{
    const slot_record_t record = {version, bytes, ~version, ~bytes};
    slot_write(slot, SLOT_ROOM, (const uint8_t *)&record, sizeof record);
}
