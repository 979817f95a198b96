/* A keyword spotter in the 16 KB of a micro:bit, bare metal: its self-test, an inference, and what it says on UART0. */
#include "ds_cnn.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))

/* UART0: ENABLE, STARTTX, TXD; an event says that a byte is gone. */
static void start_uart(void)
{
    REGISTER(0x40002500u) = 4u;
    REGISTER(0x40002008u) = 1u;
}

static void put(char character)
{
    REGISTER(0x4000211Cu) = 0;
    REGISTER(0x4000251Cu) = (uint32_t)character;
    while (REGISTER(0x4000211Cu) == 0) {
    }
}

static ds_cnn_arena_t arena;

static void print(const char *text)
{
    while (*text != 0) {
        put(*text++);
    }
}

static void print_number(int number)
{
    char digits[12];
    int n = 0;
    do {
        digits[n++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (n > 0) {
        put(digits[--n]);
    }
}

int main(void)
{
    start_uart();
    /* Does this silicon compute the bits that the compiler promised? */
    const int layer = ds_cnn_selftest(&arena);
    if (layer != 0) {
        print("self-test: wrong from layer ");
        print(ds_cnn_selftest_names[layer - 1]);
        print("\n");
    } else {
        print("self-test: every layer is right\n");
    }

    /* One inference. A product would have the features of a second of sound here; silence is the same number in all. */
    int8_t *input = ds_cnn_input(&arena, 0);
    for (int i = 0; i < DS_CNN_INPUT0_BYTES; i++) {
        input[i] = ds_cnn_quantize(0.0f, DS_CNN_INPUT0_SCALE, DS_CNN_INPUT0_ZERO_POINT);
    }
    if (ds_cnn_run(&arena) != 0) {
        print("no arena\n");
    }
    const int8_t *scores = ds_cnn_output(&arena, 0);
    int best = 0;
    for (int i = 1; i < DS_CNN_OUTPUT0_BYTES; i++) {
        if (scores[i] > scores[best]) {
            best = i;
        }
    }
    print("class ");
    print_number(best);
    print(", ");
    print_number(DS_CNN_ARENA_BYTES);
    print(" bytes of arena, ");
    print_number(DS_CNN_STACK_BYTES);
    print(" bytes of stack\n");
    REGISTER(0xE000ED0Cu) = 0x05FA0004u; /* a reset: where the emulator ends (-no-reboot) */
    return 0;
}
