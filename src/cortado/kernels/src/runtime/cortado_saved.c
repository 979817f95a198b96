/* SPDX-License-Identifier: Apache-2.0
 *
 * A saved state begins with the magic word, the bytes of all, their CRC-32 from behind that word on, the id of the
 * model and the layout.
 */
#include "cortado_saved.h"

#include "cortado_copy.h"
#include "cortado_crc.h"

enum { MAGIC, BYTES, CRC, ID, LAYOUT = ID + 2, WORDS };

typedef char head_has_all_words[CORTADO_SAVED_HEAD_BYTES == WORDS * sizeof(uint32_t) ? 1 : -1];

#define MAGIC_WORD 0x54535443u /* "CTST" */
#define COVERED ((CRC + 1u) * (uint32_t)sizeof(uint32_t)) /* where the bytes begin that the CRC is of */

uint32_t cortado_saved_bytes(const cortado_saved_t *saved)
{
    uint32_t bytes = CORTADO_SAVED_HEAD_BYTES;
    for (uint32_t i = 0; i < saved->count; i++) {
        bytes += saved->pieces[i * saved->words + 1u];
    }
    return bytes;
}

uint32_t cortado_save(const cortado_saved_t *saved, const uint8_t *arena, void *out)
{
    const uint32_t bytes = cortado_saved_bytes(saved);
    uint32_t head[WORDS] = {MAGIC_WORD, bytes, 0, saved->id[0], saved->id[1], saved->layout};
    uint8_t *to = (uint8_t *)out + sizeof head;
    for (uint32_t i = 0; i < saved->count; i++) {
        const uint32_t *piece = saved->pieces + i * saved->words;
        cortado_copy(to, arena + piece[0], piece[1]);
        to += piece[1];
    }
    cortado_copy(out, head, sizeof head);
    head[CRC] = cortado_crc32(0, (const uint8_t *)out + COVERED, bytes - COVERED);
    cortado_copy((uint8_t *)out + CRC * sizeof head[0], &head[CRC], sizeof head[0]);
    return bytes;
}

static cortado_load_t refused(const cortado_saved_t *saved, const void *in, size_t bytes, int any_model)
{
    uint32_t head[WORDS] = {0};
    if (in != NULL && bytes >= sizeof head) {
        cortado_copy(head, in, sizeof head);
    }
    if (head[MAGIC] != MAGIC_WORD || head[BYTES] < sizeof head) {
        return CORTADO_LOAD_NOT_ONE;
    }
    if (head[BYTES] > bytes) {
        return CORTADO_LOAD_CUT_OFF;
    }
    if (cortado_crc32(0, (const uint8_t *)in + COVERED, head[BYTES] - COVERED) != head[CRC]) {
        return CORTADO_LOAD_DAMAGED;
    }
    if (!any_model && (head[ID] != saved->id[0] || head[ID + 1] != saved->id[1])) {
        return CORTADO_LOAD_MODEL;
    }
    const int is_same = head[LAYOUT] == saved->layout && head[BYTES] == cortado_saved_bytes(saved);
    return is_same ? CORTADO_LOAD_FINE : CORTADO_LOAD_LAYOUT;
}

cortado_load_t cortado_load(const cortado_saved_t *saved, uint8_t *arena, const void *in, size_t bytes, int any_model)
{
    const cortado_load_t error = refused(saved, in, bytes, any_model);
    const uint8_t *from = (const uint8_t *)in + CORTADO_SAVED_HEAD_BYTES;
    for (uint32_t i = 0; error == CORTADO_LOAD_FINE && i < saved->count; i++) {
        const uint32_t *piece = saved->pieces + i * saved->words;
        cortado_copy(arena + piece[0], from, piece[1]);
        from += piece[1];
    }
    return error;
}
