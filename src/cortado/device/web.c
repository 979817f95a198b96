/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as a WebAssembly module that imports nothing: what web/page/model.js calls. It sees the model as the harness
 * does. With CORTADO_WEB_STEP the last row of that step is kept, for a page to draw.
 */
#include "harness.h"

#include "port.h"

#define EXPORT(name) __attribute__((export_name(name), used))

static const cortado_harness_model_t *const model = &cortado_harness_model;

EXPORT("input") void *cortado_web_input(int i) { return model->input(model->arena, i); }

EXPORT("output") const void *cortado_web_output(int i) { return model->output(model->arena, i); }

EXPORT("run") int cortado_web_run(void) { return model->run(model->arena); }

EXPORT("row") void *cortado_web_row(void) { return model->row(model->arena); }

EXPORT("push") int cortado_web_push(void) { return model->push(model->arena); }

EXPORT("reset") void cortado_web_reset(void) {
    if (model->reset != NULL) {
        model->reset(model->arena);
    }
}

#ifdef CORTADO_WEB_STEP
static uint32_t step;
static uint8_t kept[CORTADO_WEB_BYTES];

EXPORT("kept") uint8_t *cortado_web_kept(void) { return kept; }

void CORTADO_WEB_PROFILE(uint32_t number);
void CORTADO_WEB_PROFILE(uint32_t number) { step = number; }

void cortado_port_send(cortado_record_t kind, const void *data, size_t bytes) {
    const uint8_t *from = data;
    size_t i;

    for (i = 0; kind == CORTADO_RECORD_TRACE && step == CORTADO_WEB_STEP && i < bytes && i < sizeof kept; ++i) {
        kept[i] = from[i];
    }
}
#endif
