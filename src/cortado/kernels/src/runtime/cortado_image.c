/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens an image and runs it. Nothing of it is believed: a table is looked at as bytes inside of the image, an offset
 * as one that may leave the arena, a number of rows as one that may leave its ring.
 */
#include "cortado_image.h"

#include "cortado_crc.h"
#include "cortado_math.h"

#include <string.h>

#if defined(__ARM_FEATURE_MVE)
#define THIS_CORE 3
#elif defined(__ARM_FEATURE_DSP)
#define THIS_CORE 2
#elif defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
#define THIS_CORE 0
#elif defined(__arm__)
#define THIS_CORE 1
#else
#define THIS_CORE 4
#endif

/* The compiler that writes images lays these out itself. */
typedef char header_is_packed[sizeof(cortado_image_t) == 88 ? 1 : -1];
typedef char tensor_is_packed[sizeof(cortado_image_tensor_t) == 24 ? 1 : -1];
typedef char step_is_packed[sizeof(cortado_step_t) == 2 * sizeof(void *) + 24 ? 1 : -1];
typedef char port_is_packed[sizeof(cortado_port_t) == sizeof(void *) + 16 ? 1 : -1];
typedef char stage_is_packed[sizeof(cortado_stage_t) == 6 ? 1 : -1];

typedef struct {
    uint32_t id, name;
} thunk_t;

/* The limits of a kernel: the scratch of its step, and a checksum of all numbers that it depends on. */
typedef struct {
    uint32_t scratch_bytes, seal;
} call_t;

/* Whether `count` times `size` bytes from `offset` on lie within `room`. */
CORTADO_ONCE static int fits(uint32_t room, uint32_t offset, uint32_t count, uint32_t size)
{
    return offset <= room && (uint64_t)count * size <= room - offset;
}

/* A table of the image. */
CORTADO_ONCE static int has(const cortado_image_t *image, uint32_t offset, uint32_t count, uint32_t size)
{
    return offset % 4u == 0 && offset >= sizeof *image && fits(image->bytes, offset, count, size);
}

static const void *at(const cortado_image_t *image, uint32_t offset)
{
    return (const uint8_t *)image + offset;
}

static const void *table(const cortado_image_t *image, uint32_t words)
{
    return at(image, 4u * words);
}

static uint32_t whole(uint32_t bytes)
{
    return (bytes + 7u) & ~7u;
}

/* RAM for the tables, for where the steps of a stage stand, and for the rows of a call. */
CORTADO_ONCE static size_t ram_needed(const cortado_image_t *image)
{
    return (size_t)whole(image->tables_bytes) + image->longest * sizeof(cortado_state_t) +
           image->widest * sizeof(void *);
}

CORTADO_ONCE static cortado_image_error_t check_head(const cortado_image_t *image, size_t bytes)
{
    uint32_t magic = 0;
    if ((uintptr_t)image % CORTADO_IMAGE_ALIGN == 0 && image != NULL && bytes >= sizeof *image) {
        (void)memcpy(&magic, image->magic, sizeof magic);
    }
    if (magic != 0x4F445443u) { /* "CTDO" */
        return CORTADO_IMAGE_NOT_ONE;
    }
    if (image->format != CORTADO_IMAGE_FORMAT) {
        return CORTADO_IMAGE_FORMAT_UNKNOWN;
    }
    if (image->bytes > bytes || image->bytes < sizeof *image) {
        return CORTADO_IMAGE_CUT_OFF;
    }
    const size_t head = offsetof(cortado_image_t, crc) + sizeof image->crc;
    if (cortado_crc32(0, at(image, head), image->bytes - head) != image->crc) {
        return CORTADO_IMAGE_DAMAGED;
    }
    if (image->core != THIS_CORE || image->pointer_bytes != sizeof(void *)) {
        return CORTADO_IMAGE_CORE;
    }
    return image->kernels == CORTADO_KERNELS_VERSION_NUMBER / 100 ? CORTADO_IMAGE_FINE : CORTADO_IMAGE_VERSION;
}

uint32_t cortado_image_ram(const void *bytes, size_t size)
{
    const cortado_image_t *image = bytes;
    const int is_one = check_head(image, size) == CORTADO_IMAGE_FINE;
    return is_one ? (uint32_t)ram_needed(image) : 0u;
}

/* Whether a range of the image is contiguous: all of it is copied to RAM, or none. */
CORTADO_ONCE static int together(const cortado_image_t *image, uint32_t offset, uint32_t count, uint32_t size)
{
    return has(image, offset, count, size) &&
           (fits(image->tables_bytes, offset - image->step, count, size) ||
            offset - image->step >= image->tables_bytes);
}

/* Places in the image: those of the tables that were copied lie in RAM. */
CORTADO_ONCE static const void *placed(const cortado_model_t *model, uint32_t offset)
{
    const cortado_image_t *image = model->image;
    const uint32_t into = offset - image->step;
    return into < image->tables_bytes ? (const uint8_t *)model->ram + into : (const uint8_t *)at(image, offset);
}

/* Sets the pointers of a descriptor, which hold places, or 0 for NULL. */
CORTADO_ONCE static int relocate(const cortado_model_t *model, const cortado_structure_t *layer, uint32_t offset)
{
    const cortado_image_t *image = model->image;
    if (!together(image, offset, 1, layer->bytes) || offset % sizeof(void *) != 0) {
        return 0;
    }
    for (uint32_t word = 0, left = layer->pointers; left != 0; word++, left >>= 1) {
        const uint32_t place = offset + word * (uint32_t)sizeof(void *);
        if ((left & 1u) == 0) {
            continue;
        }
        uint32_t to;
        (void)memcpy(&to, at(image, place), sizeof to);
        if (!fits(image->tables_bytes, place - image->step, 1, sizeof(void *)) || to >= image->bytes ||
            (to != 0 && layer->to != NULL && !relocate(model, layer->to, to))) {
            return 0;
        }
        const void *value = to == 0 ? NULL : layer->to != NULL ? placed(model, to) : at(image, to);
        (void)memcpy((uint8_t *)model->ram + (place - image->step), &value, sizeof value);
    }
    return 1;
}

/* A ring, or a whole tensor, from which calls take or in which they leave `group` rows side by side. */
static int takes_groups(uint32_t ring, const cortado_step_t *step)
{
    return ring != 0 && (ring % step->group == 0 || ring >= step->rows);
}

static int check_port(const cortado_model_t *model, const cortado_stage_t *stage,
                                   const cortado_step_t *step, cortado_port_t *port, uint32_t position)
{
    const cortado_image_t *image = model->image;
    const int inside = port->producer < CORTADO_CONSTANT;
    uint32_t offset, held = port->ring, room = image->arena_bytes;
    (void)memcpy(&offset, &port->at, sizeof offset);
    if (port->taps == 0 || port->ring == 0 || (inside ? port->producer >= position : port->dilation == 0) ||
        (step->group > 1 && port->stride != 0 && !takes_groups(port->ring, step)) ||
        (image->feeding == 2 && port->lead < (port->taps - 1) * port->dilation + 1)) {
        return 0;
    }
    if (!inside) {
        held += (stage->images - 1u) * port->height;
    }
    if (port->producer == CORTADO_CONSTANT) {
        room = image->bytes;
        if (!fits(image->tables_bytes, image->port - image->step, 1, 1)) {
            return 0; /* in flash there is no pointer to set */
        }
        port->at.constant = at(image, offset);
    }
    return fits(room, offset, held, port->row_bytes);
}

/* All numbers that a kernel depends on, without those that say where the plan has put its rows. In a stream it depends
 * on these too: what a kernel keeps from row to row nobody else may write. */
static uint32_t sealed(const cortado_image_t *image, const cortado_step_t *step,
                                    const cortado_port_t *port, const call_t *call, uint32_t id)
{
    const uint32_t low = image->feeding == 2 ? 0xFFFFFFFFu : 15u;
    cortado_step_t numbers = *step;
    (void)memset(&numbers.call, 0, sizeof numbers.call);
    numbers.out_offset &= low;
    numbers.scratch_offset &= low;
    numbers.out_ring &= (uint16_t)(low & ~15u);
    numbers.port = 0;
    const uint32_t words[] = {id, call->scratch_bytes};
    uint32_t seal = cortado_crc32(cortado_crc32(0, words, sizeof words), &numbers, sizeof numbers);
    for (uint32_t i = 0; i < step->ports; i++) {
        cortado_port_t rule = port[i];
        rule.at.offset &= rule.producer == CORTADO_CONSTANT ? 0xFFFFFFFFu : low;
        rule.ring &= (uint16_t)(low & ~15u);
        rule.lead = 0;
        rule.producer = rule.producer < CORTADO_CONSTANT ? 0 : rule.producer;
        seal = cortado_crc32(seal, &rule, sizeof rule);
    }
    return seal;
}

/* A step of the copied table, with what the image has of it. */
CORTADO_ONCE static cortado_image_error_t check_step(cortado_model_t *model, const cortado_stage_t *stage,
                                                     uint32_t position)
{
    const cortado_image_t *image = model->image;
    const uint32_t number = stage->first + position;
    const cortado_step_t *given = (const cortado_step_t *)at(image, image->step) + number;
    cortado_step_t *step = (cortado_step_t *)model->ram + number;
    const call_t *call = (const call_t *)table(image, image->call) + number;
    uint32_t thunk, layer, taps = 0;
    (void)memcpy(&thunk, &given->call, sizeof thunk);
    (void)memcpy(&layer, &given->layer, sizeof layer);
    const int pushed = image->feeding != 0 && number == 0;
    if (step->ports > CORTADO_MAX_PORTS || !fits(image->ports, step->port, step->ports, 1) || step->group == 0 ||
        !takes_groups(step->out_ring, step) || pushed != (step->ports == 0) || pushed != (thunk == 0) ||
        thunk > image->thunks || !fits(image->arena_bytes, step->scratch_offset, 1, call->scratch_bytes) ||
        !fits(image->arena_bytes, step->out_offset, (uint32_t)stage->images * step->out_ring, step->out_row_bytes)) {
        return CORTADO_IMAGE_WRONG;
    }
    const thunk_t *wanted = (const thunk_t *)table(image, image->thunk) + (thunk - 1u);
    const cortado_port_t *ports = (const cortado_port_t *)at(image, image->port) + step->port;
    if (sealed(image, given, ports, call, pushed ? 0u : wanted->id) != call->seal) {
        return CORTADO_IMAGE_WRONG;
    }
    cortado_port_t *port = (cortado_port_t *)(uintptr_t)model->program.ports + step->port;
    for (uint32_t i = 0; i < step->ports; i++, port++, ports++) {
        taps += ports->taps;
        if (port != ports) {
            *port = *ports; /* another step may have set its pointer */
        }
        if (!check_port(model, stage, step, port, position)) {
            return CORTADO_IMAGE_WRONG;
        }
    }
    if (taps > image->widest) {
        return CORTADO_IMAGE_WRONG;
    }
    if (pushed != 0) {
        return CORTADO_IMAGE_FINE;
    }
    for (uint32_t i = 0; i < cortado_thunk_count; i++) {
        const cortado_thunk_t *known = &cortado_thunks[i];
        if (known->id == wanted->id) {
            step->call = known->call;
            step->layer = known->layer == NULL ? NULL : placed(model, layer);
            return known->layer == NULL || relocate(model, known->layer, layer) ? CORTADO_IMAGE_FINE
                                                                                : CORTADO_IMAGE_WRONG;
        }
    }
    model->missing = wanted->name < image->bytes ? at(image, wanted->name) : NULL;
    return CORTADO_IMAGE_KERNEL;
}

CORTADO_ONCE static int check_tensors(const cortado_image_t *image)
{
    const uint32_t low = 0x300310u; /* of each element, the bits of an offset that are 0 */
    const cortado_image_tensor_t *tensor = table(image, image->tensor);
    for (uint32_t i = 0; i < (uint32_t)image->inputs + image->outputs; i++, tensor++) {
        const int is_there = i >= image->inputs || image->feeding == 0; /* pushed rows have none */
        if ((is_there && !fits(image->arena_bytes, tensor->offset, 1, tensor->bytes)) || tensor->element > 5 ||
            tensor->rank > 8 || tensor->name >= image->bytes || !has(image, tensor->shape, tensor->rank, 5) ||
            (tensor->offset & (low >> (4u * tensor->element)) & 15u) != 0) {
            return 0;
        }
    }
    return 1;
}

CORTADO_ONCE static int check_state(const cortado_image_t *image)
{
    const cortado_image_state_t *state = table(image, image->state);
    uint32_t left = image->arena_bytes; /* pieces lie beside each other */
    for (uint32_t i = 0; i < (uint32_t)image->resets + image->moves; i++, state++) {
        const uint32_t room = i < image->resets ? image->bytes : image->arena_bytes;
        if (!fits(image->arena_bytes, state->offset, 1, state->bytes) || !fits(room, state->from, 1, state->bytes) ||
            (i < image->resets && state->bytes > left)) {
            return 0;
        }
        left -= i < image->resets ? state->bytes : 0;
    }
    return 1;
}

/* Rows of the table: resets, moves and, where there is state, what it is saved as. */
static uint32_t states(const cortado_image_t *image)
{
    return (uint32_t)image->resets + image->moves + (image->resets != 0);
}

CORTADO_ONCE static int check_tables(const cortado_image_t *image)
{
    return has(image, 4u * image->tensor, (uint32_t)image->inputs + image->outputs, sizeof(cortado_image_tensor_t)) &&
           has(image, 4u * image->state, states(image), sizeof(cortado_image_state_t)) &&
           has(image, 4u * image->thunk, image->thunks, sizeof(thunk_t)) &&
           has(image, 4u * image->call, image->steps, sizeof(call_t)) &&
           has(image, 4u * image->stage, image->stages, sizeof(cortado_stage_t)) &&
           together(image, image->port, image->ports, sizeof(cortado_port_t)) && image->port % sizeof(void *) == 0 &&
           has(image, image->step, 1, image->tables_bytes) && image->step % sizeof(void *) == 0 &&
           fits(image->tables_bytes, 0, image->steps, sizeof(cortado_step_t)) && image->feeding <= 2 &&
           (image->feeding == 0 || image->stages == 1 || (image->feeding == 1 && image->stages != 0)) &&
           image->name < image->bytes && image->target < image->bytes &&
           *(const uint8_t *)at(image, image->bytes - 1u) == 0;
}

cortado_image_error_t cortado_image_open(const void *bytes, size_t size, cortado_model_t *model)
{
    const cortado_image_error_t error = check_head(bytes, size);
    return error == CORTADO_IMAGE_FINE ? cortado_image_open_checked(bytes, model) : error;
}

cortado_image_error_t cortado_image_open_checked(const void *bytes, cortado_model_t *model)
{
    const cortado_image_t *image = bytes;
    cortado_image_error_t error = CORTADO_IMAGE_FINE;
    if (model->ram == NULL || (uintptr_t)model->ram % 8u != 0 || model->ram_bytes < ram_needed(image)) {
        return CORTADO_IMAGE_RAM;
    }
    if (!check_tables(image) || !check_tensors(image) || !check_state(image)) {
        return CORTADO_IMAGE_WRONG;
    }
    uint8_t *ram = model->ram;
    cortado_copy(ram, at(image, image->step), image->tables_bytes);
    model->image = image;
    model->missing = NULL;
    model->program.steps = (const cortado_step_t *)model->ram;
    model->program.ports = placed(model, image->port);
#ifdef CORTADO_CHECK_RANGES
    model->program.first_range = NULL; /* an image has no table of ranges */
#endif
    ram += whole(image->tables_bytes);
    model->state.rows = (cortado_state_t *)(void *)ram;
    model->rows = (const int8_t **)(void *)(ram + image->longest * sizeof(cortado_state_t));
    model->count = 0;
    const cortado_stage_t *stage = table(image, image->stage);
    for (uint32_t i = 0; i < image->stages && error == CORTADO_IMAGE_FINE; i++, stage++) {
        /* The first stage takes the rows that are pushed, and no other has them. */
        const int pushes = (i == 0) != (stage->first == 0) || (i == 0 && stage->images != 1);
        if (stage->steps == 0 || stage->steps > image->longest || stage->images == 0 ||
            (image->feeding != 0 && pushes) || stage->first + stage->steps > image->steps) {
            return CORTADO_IMAGE_WRONG;
        }
        for (uint32_t s = 0; s < stage->steps && error == CORTADO_IMAGE_FINE; s++) {
            error = check_step(model, stage, s);
        }
    }
    return error;
}

/* Where the header of a method ends and that of the next one lies. */
#define STRIDE ((sizeof(cortado_image_t) + CORTADO_IMAGE_ALIGN - 1u) / CORTADO_IMAGE_ALIGN * CORTADO_IMAGE_ALIGN)

const cortado_image_t *cortado_image_method(const cortado_model_t *model, const char *name)
{
    const cortado_image_t *image = model->image;
    for (uint32_t i = 1, at_byte = STRIDE; i <= image->methods; i++, at_byte += STRIDE) {
        if (!fits(image->bytes, at_byte, 1, sizeof *image)) {
            return NULL;
        }
        /* Each method reaches to the end of the image, whose last byte is 0, and needs no larger arena. */
        const cortado_image_t *method = at(image, at_byte);
        if (method->bytes != image->bytes - at_byte || method->name >= method->bytes ||
            method->arena_bytes > image->arena_bytes) {
            return NULL;
        }
        if (strcmp(at(method, method->name), name) == 0) {
            return method;
        }
    }
    return NULL;
}

static int wrong(const void *arena)
{
    return arena == NULL || (uintptr_t)arena % CORTADO_IMAGE_ALIGN != 0;
}

static const cortado_image_tensor_t *tensor(const cortado_model_t *model, uint32_t i, uint32_t first, uint32_t count)
{
    return i < count ? (const cortado_image_tensor_t *)table(model->image, model->image->tensor) + first + i : NULL;
}

const cortado_image_tensor_t *cortado_image_input_tensor(const cortado_model_t *model, int i)
{
    return tensor(model, (uint32_t)i, 0, model->image->inputs);
}

const cortado_image_tensor_t *cortado_image_output_tensor(const cortado_model_t *model, int i)
{
    return tensor(model, (uint32_t)i, model->image->inputs, model->image->outputs);
}

void *cortado_image_input(const cortado_model_t *model, void *arena, int i)
{
    const cortado_image_tensor_t *found = cortado_image_input_tensor(model, i);
    return arena == NULL || found == NULL || model->image->feeding != 0 ? NULL : (uint8_t *)arena + found->offset;
}

const void *cortado_image_output(const cortado_model_t *model, const void *arena, int i)
{
    const cortado_image_tensor_t *found = cortado_image_output_tensor(model, i);
    return arena == NULL || found == NULL ? NULL : (const uint8_t *)arena + found->offset;
}

/* Sets the state to its initial values, or to the results of the run. */
CORTADO_ONCE static void set_state(const cortado_image_t *image, uint8_t *arena, uint32_t first, uint32_t end,
                                   const uint8_t *from)
{
    const cortado_image_state_t *state = (const cortado_image_state_t *)table(image, image->state) + first;
    for (; first < end; first++, state++) {
        if (state->from == 0 && from == (const uint8_t *)image) {
            (void)memset(arena + state->offset, (int)state->fill, state->bytes);
        } else {
            (void)memmove(arena + state->offset, from + state->from, state->bytes);
        }
    }
}

void cortado_image_reset(cortado_model_t *model, void *arena)
{
    const cortado_image_t *image = model->image;
    if (!wrong(arena)) {
        set_state(image, arena, 0, image->resets, (const uint8_t *)image);
        model->count = 0;
    }
}

/* The description of the state for cortado_saved.c. Rows begin with offset and bytes. */
static cortado_saved_t saved(const cortado_model_t *model)
{
    const cortado_image_t *image = model->image;
    const cortado_image_state_t *state = table(image, image->state), *last = state;
    cortado_saved_t found = {&state->offset, image->resets, sizeof *state / sizeof state->offset, 0, {0, 0}};
    if (image->resets != 0) {
        last += image->resets + image->moves;
        found.id[0] = last->offset;
        found.id[1] = last->bytes;
        found.layout = last->from;
    }
    return found;
}

uint32_t cortado_image_state_bytes(const cortado_model_t *model)
{
    const cortado_saved_t state = saved(model);
    return state.count == 0 ? 0 : cortado_saved_bytes(&state);
}

uint32_t cortado_image_save(const cortado_model_t *model, const void *arena, void *out)
{
    const cortado_saved_t state = saved(model);
    return wrong(arena) || state.count == 0 ? 0 : cortado_save(&state, arena, out);
}

static cortado_load_t load(const cortado_model_t *model, void *arena, const void *in, size_t bytes, int any_model)
{
    const cortado_saved_t state = saved(model);
    if (wrong(arena)) {
        return CORTADO_LOAD_ARENA;
    }
    return state.count == 0 ? CORTADO_LOAD_LAYOUT : cortado_load(&state, arena, in, bytes, any_model);
}

cortado_load_t cortado_image_load(const cortado_model_t *model, void *arena, const void *in, size_t bytes)
{
    return load(model, arena, in, bytes, 0);
}

cortado_load_t cortado_image_adopt(const cortado_model_t *model, void *arena, const void *in, size_t bytes)
{
    return load(model, arena, in, bytes, 1);
}

static void run_stages(const cortado_model_t *model, uint8_t *arena, uint32_t first)
{
    const cortado_image_t *image = model->image;
    const cortado_stage_t *stages = table(image, image->stage);
    for (uint32_t i = first; i < image->stages; i++) {
        cortado_run_stage(&model->program, &stages[i], i, arena, model->state.rows, model->rows);
    }
    set_state(image, arena, image->resets, (uint32_t)image->resets + image->moves, arena);
}

int cortado_image_run(const cortado_model_t *model, void *arena)
{
    if (wrong(arena) || model->image->feeding != 0) {
        return 1;
    }
    run_stages(model, arena, 0);
    return 0;
}

/* Rows are counted up to the last; of a stream there is none. */
static int takes_row(const cortado_model_t *model, const void *arena)
{
    const uint32_t feeding = model->image->feeding;
    return !wrong(arena) && feeding != 0 && (feeding == 2 || model->count < model->program.steps->rows);
}

int8_t *cortado_image_row(const cortado_model_t *model, void *arena)
{
    const cortado_step_t *step = model->program.steps;
    if (!takes_row(model, arena)) {
        return NULL;
    }
    const uint32_t slot = model->image->feeding == 1 ? model->state.rows->out_slot : model->state.stream->out_slot;
    return (int8_t *)arena + step->out_offset + (model->count == 0 ? 0 : slot) * step->out_row_bytes;
}

int cortado_image_push(cortado_model_t *model, void *arena)
{
    const cortado_image_t *image = model->image;
    const cortado_stage_t *stage = table(image, image->stage);
    if (!takes_row(model, arena)) {
        return -1;
    }
    if (image->feeding == 2) {
        if (model->count == 0) {
            cortado_reset_stream(&model->program, stage, arena, model->state.stream);
            model->count = 1;
        }
        const int made = cortado_push_stream(&model->program, stage, arena, model->state.stream, model->rows);
        return made && model->state.stream[stage->steps - 1].made > image->warm_up;
    }
    if (model->count == 0) {
        cortado_reset_stage(&model->program, stage, 0, arena, model->state.rows);
    }
    model->count++;
    cortado_push_row(&model->program, stage, 0, arena, model->state.rows, model->rows);
    if (model->count < model->program.steps->rows) {
        return 0;
    }
    run_stages(model, arena, 1);
    return 1;
}

static uint32_t values_of(const cortado_image_tensor_t *found)
{
    return found->element == 1 ? found->bytes / 2u : found->bytes;
}

void cortado_image_quantize_input(const cortado_model_t *model, void *arena, int i, const float *values)
{
    const cortado_image_tensor_t *found = cortado_image_input_tensor(model, i);
    void *to = cortado_image_input(model, arena, i);
    if (to == NULL || found->scale == 0.0f || found->element > 1) {
        return;
    }
    if (found->element == 0) {
        cortado_quantize_f32_s8(values, to, (int32_t)values_of(found), found->scale, found->zero_point);
    } else {
        cortado_quantize_f32_s16(values, to, (int32_t)values_of(found), found->scale, found->zero_point);
    }
}

void cortado_image_dequantize_output(const cortado_model_t *model, const void *arena, int i, float *values)
{
    const cortado_image_tensor_t *found = cortado_image_output_tensor(model, i);
    const void *from = cortado_image_output(model, arena, i);
    if (from == NULL || found->scale == 0.0f || found->element > 1) {
        return;
    }
    if (found->element == 0) {
        cortado_dequantize_s8_f32(from, values, (int32_t)values_of(found), found->scale, found->zero_point);
    } else {
        cortado_dequantize_s16_f32(from, values, (int32_t)values_of(found), found->scale, found->zero_point);
    }
}
