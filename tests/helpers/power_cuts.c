/* The slots of examples/update while power fails at every erase and every write, in the middle of it. */
#include "slots.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMAGE 3000u

uint8_t slots[2][SLOT_BYTES] __attribute__((aligned(1024)));
static jmp_buf cut;
static int left; /* operations until power fails */

/* The one that is under way leaves some bits as they were. */
static void operate(uint8_t *at, uint8_t with, const uint8_t *from, uint32_t bytes)
{
    const int fails = left-- == 0;
    for (uint32_t i = 0; i < bytes; i++) {
        const uint8_t done = from == NULL ? (uint8_t)(at[i] | with) : (uint8_t)(at[i] & from[i]);
        const uint8_t bits = fails ? (uint8_t)rand() : 0xFF;
        at[i] = (uint8_t)((at[i] & (uint8_t)~bits) | (done & bits));
    }
    if (fails) {
        longjmp(cut, 1);
    }
}

void flash_erase(uint8_t *page) { operate(page, 0xFF, NULL, FLASH_PAGE); }
void flash_write(uint8_t *to, const uint8_t *from) { operate(to, 0, from, FLASH_UNIT); }

static void update(int slot, uint32_t version, int budget)
{
    static uint8_t image[IMAGE];
    memset(image, (int)version, sizeof image);
    left = budget;
    if (setjmp(cut) == 0) {
        slot_erase(slot);
        for (uint32_t at = 0; at < IMAGE; at += 256u) {
            slot_write(slot, at, image + at, IMAGE - at < 256u ? IMAGE - at : 256u);
        }
        slot_commit(slot, version, IMAGE);
    }
}

/* The version that would run, if its image is whole; 0 if not. */
static uint32_t running(void)
{
    const int slot = slot_newest();
    const slot_record_t *record = slot < 0 ? NULL : slot_record(slot);
    for (uint32_t i = 0; record != NULL && i < IMAGE; i++) {
        if (record->bytes != IMAGE || slots[slot][i] != record->version) {
            return 0;
        }
    }
    return record == NULL ? 0 : record->version;
}

int main(void)
{
    int cuts = 0, news = 0;
    for (int round = 0; round < 2; round++) {
        for (int budget = 0;; budget++, cuts++) {
            update(0, 3, -1);
            update(1, 2, -1);
            update(1, 4, budget);
            const uint32_t found = running();
            news += found == 4;
            if (found != 3 && found != 4) {
                printf("cut at operation %d: version %u\n", budget, (unsigned)found);
                return 1;
            }
            if (left >= 0) {
                break; /* power lasted */
            }
            update(found == 3 ? 1 : 0, 5, -1);
            if (running() != 5) {
                printf("no update after a cut at operation %d\n", budget);
                return 1;
            }
        }
    }
    printf("%d cuts, %d with the new model\n", cuts, news);
    return 0;
}
