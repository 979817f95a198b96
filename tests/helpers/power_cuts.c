/* The slots of examples/update while power fails at every erase and every write, in the middle of it: of images, and of
 * saved states. */
#include "cortado_saved.h"
#include "slots.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMAGE 3000u
#define SLOT_BYTES (64u * 1024u)
#define STATE_BYTES (2u * FLASH_PAGE)

static uint8_t images[2][SLOT_BYTES] __attribute__((aligned(1024)));
static uint8_t saved[2][STATE_BYTES] __attribute__((aligned(1024)));
static const slots_t slots = {images[0], SLOT_BYTES}, states = {saved[0], STATE_BYTES};
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
        slot_erase(&slots, slot);
        for (uint32_t at = 0; at < IMAGE; at += 256u) {
            slot_write(&slots, slot, at, image + at, IMAGE - at < 256u ? IMAGE - at : 256u);
        }
        slot_commit(&slots, slot, version, IMAGE);
    }
}

/* The version that would run, if its image is whole; 0 if not. */
static uint32_t running(void)
{
    const int slot = slot_newest(&slots);
    const slot_record_t *record = slot < 0 ? NULL : slot_record(&slots, slot);
    for (uint32_t i = 0; record != NULL && i < IMAGE; i++) {
        if (record->bytes != IMAGE || slot_content(&slots, slot)[i] != record->version) {
            return 0;
        }
    }
    return record == NULL ? 0 : record->version;
}

static int of_images(int *cuts, int *news)
{
    for (int budget = 0;; budget++, ++*cuts) {
        update(0, 3, -1);
        update(1, 2, -1);
        update(1, 4, budget);
        const uint32_t found = running();
        *news += found == 4;
        if (found != 3 && found != 4) {
            printf("cut at operation %d: version %u\n", budget, (unsigned)found);
            return 1;
        }
        if (left >= 0) {
            return 0; /* power lasted */
        }
        update(found == 3 ? 1 : 0, 5, -1);
        if (running() != 5) {
            printf("no update after a cut at operation %d\n", budget);
            return 1;
        }
    }
}

/* ---- states ---- */

static const uint32_t pieces[] = {4u, 300u, 400u, 77u};
static const cortado_saved_t kept = {pieces, 2u, 2u, 0x1234u, {1u, 2u}};
static uint8_t arena[512], blob[STATE_BYTES];

static void save(int value, int budget)
{
    memset(arena, value, sizeof arena);
    const uint32_t bytes = cortado_save(&kept, arena, blob);
    left = budget;
    if (setjmp(cut) == 0) {
        (void)slot_replace(&states, blob, bytes);
    }
}

/* The value that comes back; -1 where it is not all of one, 0 where none does. */
static int loaded(void)
{
    const int slot = slot_newest(&states);
    memset(arena, 0, sizeof arena);
    if (slot < 0 || cortado_load(&kept, arena, slot_content(&states, slot), slot_record(&states, slot)->bytes, 0) != 0) {
        return 0;
    }
    for (uint32_t i = 0; i < sizeof arena; i++) {
        const int is_state = (i >= 4 && i < 304) || (i >= 400 && i < 477);
        if (arena[i] != (is_state ? arena[4] : 0)) {
            return -1;
        }
    }
    return arena[4];
}

static int of_states(int *cuts, int *news)
{
    for (int budget = 0;; budget++, ++*cuts) {
        memset(saved, 0xFF, sizeof saved);
        save(3, -1);
        save(4, -1); /* both slots hold one */
        save(5, budget);
        const int found = loaded();
        *news += found == 5;
        if (found != 4 && found != 5) {
            printf("cut at operation %d: state %d\n", budget, found);
            return 1;
        }
        if (left >= 0) {
            return 0;
        }
        save(6, -1);
        if (loaded() != 6) {
            printf("no state saved after a cut at operation %d\n", budget);
            return 1;
        }
    }
}

int main(void)
{
    int cuts = 0, news = 0, state_cuts = 0, state_news = 0;
    for (int round = 0; round < 2; round++) {
        if (of_images(&cuts, &news) != 0 || of_states(&state_cuts, &state_news) != 0) {
            return 1;
        }
    }
    printf("%d cuts, %d with the new model; %d cuts, %d with the new state\n", cuts, news, state_cuts, state_news);
    return 0;
}
