/* SPDX-License-Identifier: Apache-2.0 */
#include "cortado_selftest.h"

/* Four bits at a time: a table of 64 bytes. */
uint32_t cortado_selftest_crc32(uint32_t crc, const uint8_t *data, uint32_t bytes)
{
    static const uint32_t table[16] = {
        0x00000000u, 0x1DB71064u, 0x3B6E20C8u, 0x26D930ACu, 0x76DC4190u, 0x6B6B51F4u, 0x4DB26158u, 0x5005713Cu,
        0xEDB88320u, 0xF00F9344u, 0xD6D6A3E8u, 0xCB61B38Cu, 0x9B64C2B0u, 0x86D3D2D4u, 0xA00AE278u, 0xBDBDF21Cu,
    };
    crc = ~crc;
    for (; bytes > 0; bytes--) {
        crc ^= *data++;
        crc = table[crc & 15u] ^ (crc >> 4);
        crc = table[crc & 15u] ^ (crc >> 4);
    }
    return ~crc;
}

/* Runs in place of a step's kernel; the layer is the record of the step. */
static void cortado_selftest_step(const void *layer, const int8_t *const rows[], int8_t *out, int32_t n, void *scratch,
                                  int32_t y)
{
    cortado_watched_t *watched = (cortado_watched_t *)(uintptr_t)layer;
    const cortado_step_t *step = watched->step;
    const uint32_t row = (uint32_t)y;
    uint32_t count = step->rows == 0 ? 1u : step->group; /* in an endless stream, a call makes one row */
    if (step->rows != 0 && row + count > step->rows) {
        count = step->rows - row;
    }
    step->call(step->layer, rows, out, n, scratch, y);
    if (row >= watched->from && row < watched->end) {
        watched->crc = cortado_selftest_crc32(watched->crc, (const uint8_t *)out, count * step->out_row_bytes);
    }
}

#ifdef CORTADO_PROFILE
static void unheard(uint32_t step)
{
    (void)step;
}
#endif

void cortado_selftest_watch(cortado_selftest_t *test, const cortado_network_t *network, uint32_t stage,
                            const cortado_digest_t *expected)
{
    test->program = *network->program;
    test->program.steps = test->steps;
    test->stage = network->stages[stage];
    const uint32_t first = test->stage.first;
    test->stage.first = 0;
#ifdef CORTADO_PROFILE
    test->program.profile = unheard;
#endif
#ifdef CORTADO_CHECK_RANGES
    test->program.first_range = NULL;
#endif
    for (uint32_t s = 0; s < test->stage.steps; s++) {
        cortado_step_t *step = &test->steps[s];
        *step = network->program->steps[first + s];
        test->watched[s].step = &network->program->steps[first + s];
        test->watched[s].from = expected[first + s].from;
        test->watched[s].end = expected[first + s].end;
        test->watched[s].crc = 0;
        if (step->ports == 0) { /* its rows are pushed, so it has no kernel */
            continue;
        }
        step->call = cortado_selftest_step;
        step->layer = &test->watched[s];
#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
        step->scratch_need = NULL; /* it reads the layer */
        step->scratch_bytes = 0;
#endif
    }
}

int cortado_selftest_differs(const cortado_selftest_t *test, const cortado_stage_t *stage,
                             const cortado_digest_t *expected)
{
    for (uint32_t s = 0; s < stage->steps; s++) {
        if (test->steps[s].ports != 0 && test->watched[s].crc != expected[stage->first + s].crc) {
            return (int)(stage->first + s + 1u);
        }
    }
    return 0;
}
