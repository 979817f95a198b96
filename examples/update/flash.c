/* This board's flash. QEMU has none for it: a part of its memory, which a reset leaves as it was, is written as flash
 * is, and can lose bits by a write but never win one back. A product has its vendor's functions here. */
#include "flash.h"

#include <string.h>

void flash_erase(uint8_t *page)
{
    memset(page, 0xFF, FLASH_PAGE);
}

void flash_write(uint8_t *to, const uint8_t *from)
{
    for (uint32_t i = 0; i < FLASH_UNIT; i++) {
        to[i] &= from[i];
    }
}
