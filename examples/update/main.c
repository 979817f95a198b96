/* Firmware whose model is data: it runs the image of one slot, and takes a new one into the other over a serial port.
 *
 * A packet is a letter, its length in two bytes, and so much:
 *   B  bytes and version of an image that comes (4 bytes each): the spare slot is erased
 *   D  the next bytes of it
 *   E  all is there: it is checked, and runs from now on
 *   R  the codes of an input: the answer is the codes of the output, and how many pictures were read (4 bytes)
 *   S  the state goes to flash, from where it comes back after a reset
 *   V  which version runs (4 bytes)
 * The answer is '.', or '!' for a refusal, its length in one byte, and what it says. A packet that stops for a
 * second in its middle is answered with '?' and forgotten.
 */
#include "cortado_image.h"
#include "digits.h" /* of the network that this firmware was written for: the interface that an update must have */
#include "slots.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define ARENA_BYTES (2u * DIGITS_ARENA_BYTES) /* room for networks to come */
#define RAM_BYTES 2048u
#define PACKET_BYTES 256u
#define MODEL_BYTES (64u * 1024u)     /* of a slot for a model */
#define STATE_BYTES (2u * FLASH_PAGE) /* of one for a saved state */

static uint8_t model_flash[2][MODEL_BYTES] __attribute__((section(".slots"), aligned(1024)));
static uint8_t state_flash[2][STATE_BYTES] __attribute__((section(".slots"), aligned(1024)));
static const slots_t slots = {model_flash[0], MODEL_BYTES}, states = {state_flash[0], STATE_BYTES};
static uint8_t arena[ARENA_BYTES] __attribute__((aligned(CORTADO_IMAGE_ALIGN)));
static uint64_t ram[2][RAM_BYTES / 8]; /* the tables of the model that runs, and of the one that is looked at */
static cortado_model_t models[2];
static int running = -1; /* the slot; -1: no model yet */

/* ---- the serial port: UART0 of the Secure state: DATA, STATE (bit 0: full, bit 1: something came), CTRL, BAUDDIV ---- */

static void send(uint8_t byte)
{
    while ((REGISTER(0x59303004u) & 1u) != 0) {
    }
    REGISTER(0x59303000u) = byte;
}

static void answer(char kind, const void *data, uint32_t bytes)
{
    send((uint8_t)kind);
    send((uint8_t)bytes);
    for (uint32_t i = 0; i < bytes; i++) {
        send(((const uint8_t *)data)[i]);
    }
}

/* A byte, or -1 if none comes for so many ticks. */
static int receive_within(int ticks)
{
    while ((REGISTER(0x59303004u) & 2u) == 0) {
        if ((REGISTER(0xE000E010u) & 0x10000u) != 0 && ticks-- == 0) { /* SysTick has counted to 0 */
            return -1;
        }
    }
    return (int)(REGISTER(0x59303000u) & 0xFFu);
}

static int receive(void)
{
    return receive_within(50);
}

/* What is left of a packet that nobody read to its end goes by. */
static void wait_for_silence(void)
{
    while (receive_within(8) >= 0) {
    }
}

static int receive_all(uint8_t *data, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        const int byte = receive();
        if (byte < 0) {
            return 0;
        }
        data[i] = (uint8_t)byte;
    }
    return 1;
}

/* ---- models ---- */

/* Whether a tensor is what the firmware fills or reads: an update may change weights, never the interface. */
static int is_same(const cortado_image_t *image, const cortado_image_tensor_t *tensor, const uint32_t *shape, int rank,
                   int element)
{
    return tensor->element == element && tensor->rank == rank &&
           memcmp((const uint8_t *)image + tensor->shape, shape, (size_t)rank * sizeof *shape) == 0;
}

/* Why an image can't be the next model; NULL if it can. It is open then. */
static const char *refusal(const uint8_t *image, uint32_t bytes, cortado_model_t *model)
{
    static const char *const reasons[] = {
        "",
        "this is no image",
        "an image of another format",
        "an image that is cut off",
        "a damaged image",
        "an image for another core",
        "an image for kernels of another version",
        "its tables need more RAM",
        "it needs a kernel that this firmware does not have",
        "its tables are wrong",
    };
    static const uint32_t in[] = DIGITS_INPUT0_SHAPE, out[] = DIGITS_OUTPUT0_SHAPE, count[] = DIGITS_OUTPUT1_SHAPE;
    const cortado_image_error_t error = cortado_image_open(image, bytes, model);
    if (error != CORTADO_IMAGE_FINE) {
        return reasons[error];
    }
    if (model->image->inputs != 1 || model->image->outputs != 2 || model->image->feeding != 0) {
        return "it has other inputs or outputs";
    }
    const cortado_image_tensor_t *input = cortado_image_input_tensor(model, 0);
    if (!is_same(model->image, input, in, sizeof in / sizeof *in, 0) ||
        !is_same(model->image, cortado_image_output_tensor(model, 0), out, sizeof out / sizeof *out, 0) ||
        !is_same(model->image, cortado_image_output_tensor(model, 1), count, sizeof count / sizeof *count, 2)) {
        return "its input or output has another shape or type";
    }
    if (input->scale != DIGITS_INPUT0_SCALE || input->zero_point != DIGITS_INPUT0_ZERO_POINT) {
        return "its input has another scale";
    }
    return model->image->arena_bytes > ARENA_BYTES ? "its arena is too large" : NULL;
}

static const char *start(int slot)
{
    const slot_record_t *record = slot_record(&slots, slot);
    models[slot].ram = ram[slot];
    models[slot].ram_bytes = RAM_BYTES;
    return record == NULL ? "empty" : refusal(slot_content(&slots, slot), record->bytes, &models[slot]);
}

/* ---- state ---- */

/* To flash, in place of the one before the last. A product does it when its supply falls, or once an hour. */
static const char *keep(void)
{
    static uint8_t saved[SLOT_ROOM(STATE_BYTES)];
    if (running < 0 || cortado_image_state_bytes(&models[running]) > sizeof saved) {
        return running < 0 ? "no model" : "its state is larger than a slot";
    }
    return slot_replace(&states, saved, cortado_image_save(&models[running], arena, saved)) < 0 ? "no state" : NULL;
}

/* The state that was saved last, by this model or by an older version of it whose state means the same; else the one
 * that the model begins with. */
static const char *restore(void)
{
    const int newest = slot_newest(&states);
    if (running < 0) {
        return "no model";
    }
    cortado_image_reset(&models[running], arena);
    if (newest < 0) {
        return "state begins anew";
    }
    const uint32_t bytes = slot_record(&states, newest)->bytes;
    switch (cortado_image_adopt(&models[running], arena, slot_content(&states, newest), bytes)) {
    case CORTADO_LOAD_FINE: return "state was kept";
    case CORTADO_LOAD_LAYOUT: return "state begins anew: it has another layout";
    default: return "state begins anew: the saved one is damaged";
    }
}

/* The newest model that can run: flash may have lost what was checked when it came. */
static void boot(void)
{
    const int newest = slot_newest(&slots);
    if (newest >= 0) {
        running = start(newest) == NULL ? newest : start(1 - newest) == NULL ? 1 - newest : -1;
        (void)restore();
    }
}

/* ---- updates ---- */

static struct {
    int slot; /* -1: none is under way */
    uint32_t bytes, version, written;
} coming = {-1, 0, 0, 0};

static const char *begin(const uint8_t *packet, uint32_t bytes)
{
    coming.slot = -1;
    if (bytes != 8) {
        return "expected bytes and version";
    }
    memcpy(&coming.bytes, packet, 4);
    memcpy(&coming.version, packet + 4, 4);
    if (coming.bytes > SLOT_ROOM(MODEL_BYTES)) {
        return "it is larger than a slot";
    }
    if (running >= 0 && coming.version <= slot_record(&slots, running)->version) {
        return "its version is not above the one that runs";
    }
    coming.slot = running == 0 ? 1 : 0;
    coming.written = 0;
    slot_erase(&slots, coming.slot);
    return NULL;
}

static const char *take(const uint8_t *packet, uint32_t bytes)
{
    if (coming.slot < 0 || coming.written % FLASH_UNIT != 0 || bytes > coming.bytes - coming.written) {
        return "no such bytes were announced";
    }
    slot_write(&slots, coming.slot, coming.written, packet, bytes);
    coming.written += bytes;
    return NULL;
}

/* The record is written last, and only of an image that can run. */
static const char *end(void)
{
    const int slot = coming.slot;
    coming.slot = -1;
    if (slot < 0 || coming.written != coming.bytes) {
        return "it is not complete";
    }
    models[slot].ram = ram[slot];
    models[slot].ram_bytes = RAM_BYTES;
    const char *why = refusal(slot_content(&slots, slot), coming.bytes, &models[slot]);
    if (why == NULL) {
        (void)keep(); /* what the old model knows */
        slot_commit(&slots, slot, coming.version, coming.bytes);
        running = slot;
    }
    return why;
}

/* ---- packets ---- */

static void run(const uint8_t *codes, uint32_t bytes)
{
    const char *why = running < 0 ? "no model" : bytes != DIGITS_INPUT0_BYTES ? "expected an input" : NULL;
    if (why != NULL) {
        answer('!', why, (uint32_t)strlen(why));
        return;
    }
    uint8_t found[DIGITS_OUTPUT0_BYTES + DIGITS_OUTPUT1_BYTES];
    memcpy(cortado_image_input(&models[running], arena, 0), codes, bytes);
    cortado_image_run(&models[running], arena);
    memcpy(found, cortado_image_output(&models[running], arena, 0), DIGITS_OUTPUT0_BYTES);
    memcpy(found + DIGITS_OUTPUT0_BYTES, cortado_image_output(&models[running], arena, 1), DIGITS_OUTPUT1_BYTES);
    answer('.', found, sizeof found);
}

static void handle(char kind, const uint8_t *packet, uint32_t bytes)
{
    const char *why = "unknown";
    switch (kind) {
    case 'B': why = begin(packet, bytes); break;
    case 'D': why = take(packet, bytes); break;
    case 'E': why = end(); break;
    case 'R': run(packet, bytes); return;
    case 'S': why = keep(); break;
    case 'V': answer('.', running < 0 ? &(uint32_t){0} : &slot_record(&slots, running)->version, 4); return;
    default: break;
    }
    const char *text = why != NULL ? why : kind == 'E' ? restore() : ""; /* what an update does with the state */
    answer(why == NULL ? '.' : '!', text, (uint32_t)strlen(text));
}

int main(void)
{
    static uint8_t packet[PACKET_BYTES];
    REGISTER(0x59303010u) = 16u;
    REGISTER(0x59303008u) = 3u;
    REGISTER(0xE000E014u) = 640000u - 1u; /* SysTick: 20 ms at 32 MHz */
    REGISTER(0xE000E018u) = 0;
    REGISTER(0xE000E010u) = 5u;
    boot();
    wait_for_silence();
    send('>');
    for (;;) {
        const int kind = receive(); /* a product does its work here while nothing comes */
        uint8_t length[2];
        if (kind < 0) {
            continue;
        }
        const uint32_t bytes = receive_all(length, 2) ? length[0] + 256u * length[1] : ~0u;
        if (bytes <= sizeof packet && receive_all(packet, bytes)) {
            handle((char)kind, packet, bytes);
        } else {
            wait_for_silence();
            answer('?', NULL, 0);
        }
    }
}
