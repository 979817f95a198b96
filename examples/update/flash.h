/* Flash as most chips have it: pages that are erased to ones, units that are written once after that. */
#ifndef FLASH_H
#define FLASH_H

#include <stdint.h>

#define FLASH_PAGE 1024u
#define FLASH_UNIT 16u

void flash_erase(uint8_t *page);                        /* FLASH_PAGE bytes */
void flash_write(uint8_t *to, const uint8_t *from);     /* FLASH_UNIT bytes */

#endif
