#include "slots.h"

#include <string.h>

uint8_t *slot_content(const slots_t *slots, int slot)
{
    return slots->flash + (slot == 0 ? 0u : slots->bytes);
}

const slot_record_t *slot_record(const slots_t *slots, int slot)
{
    const uint32_t room = SLOT_ROOM(slots->bytes);
    const slot_record_t *record = (const slot_record_t *)(const void *)(slot_content(slots, slot) + room);
    const int whole = record->version == ~record->not_version && record->bytes == ~record->not_bytes;
    return whole && record->bytes <= room ? record : NULL;
}

int slot_newest(const slots_t *slots)
{
    const slot_record_t *first = slot_record(slots, 0), *second = slot_record(slots, 1);
    if (first == NULL || second == NULL) {
        return first != NULL ? 0 : second != NULL ? 1 : -1;
    }
    return second->version > first->version ? 1 : 0;
}

void slot_erase(const slots_t *slots, int slot)
{
    for (uint32_t end = slots->bytes; end > 0; end -= FLASH_PAGE) { /* the record first */
        flash_erase(slot_content(slots, slot) + end - FLASH_PAGE);
    }
}

void slot_write(const slots_t *slots, int slot, uint32_t offset, const uint8_t *data, uint32_t bytes)
{
    for (uint32_t at = 0; at < bytes; at += FLASH_UNIT) {
        const uint32_t left = bytes - at;
        uint8_t unit[FLASH_UNIT];
        memset(unit, 0xFF, sizeof unit);
        memcpy(unit, data + at, left < FLASH_UNIT ? left : FLASH_UNIT);
        flash_write(slot_content(slots, slot) + offset + at, unit);
    }
}

void slot_commit(const slots_t *slots, int slot, uint32_t version, uint32_t bytes)
{
    const slot_record_t record = {version, bytes, ~version, ~bytes};
    slot_write(slots, slot, SLOT_ROOM(slots->bytes), (const uint8_t *)&record, sizeof record);
}

int slot_replace(const slots_t *slots, const uint8_t *data, uint32_t bytes)
{
    const int old = slot_newest(slots), slot = old == 0 ? 1 : 0;
    const uint32_t version = old < 0 ? 1u : slot_record(slots, old)->version + 1u;
    if (bytes > SLOT_ROOM(slots->bytes)) {
        return -1;
    }
    slot_erase(slots, slot);
    slot_write(slots, slot, 0, data, bytes);
    slot_commit(slots, slot, version, bytes);
    return slot;
}
