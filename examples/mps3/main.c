/* Two models on a Cortex-M55: words in the main program, machine sounds in a timer interrupt, each in its own arena. */
#include "cortado_together.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define ROUNDS 3

static volatile int ticks, rounds, wrong;

/* UART0 of the Secure state: DATA, STATE (bit 0: full), CTRL, BAUDDIV. */
static void start_uart(void)
{
    REGISTER(0x59303010u) = 16u;
    REGISTER(0x59303008u) = 1u;
}

static void print(const char *text)
{
    for (; *text != 0; text++) {
        while ((REGISTER(0x59303004u) & 1u) != 0) {
        }
        REGISTER(0x59303000u) = (uint32_t)*text;
    }
}

/* Every millisecond; now and then it runs a whole network, while the other one waits where it was. */
void systick_handler(void);
void systick_handler(void)
{
    if (++ticks % 5 == 0 && rounds < ROUNDS) {
        wrong += deep_autoencoder_selftest(deep_autoencoder_default_arena()) != 0;
        rounds++;
    }
}

int main(void)
{
    start_uart();
    REGISTER(0xE000E014u) = 32000u - 1u; /* SysTick: a millisecond at 32 MHz */
    REGISTER(0xE000E018u) = 0;
    REGISTER(0xE000E010u) = 7u;
    int runs = 0, words_wrong = 0;
    while (rounds < ROUNDS || runs < ROUNDS) {
        words_wrong += ds_cnn_selftest(ds_cnn_default_arena()) != 0;
        runs++;
    }
    REGISTER(0xE000E010u) = 0;
    print(words_wrong == 0 ? "words: every layer is right\n" : "words: WRONG\n");
    print(wrong == 0 ? "sounds, in the interrupt: every layer is right\n" : "sounds, in the interrupt: WRONG\n");
    REGISTER(0xE000ED0Cu) = 0x05FA0004u; /* a reset: where the emulator ends (-no-reboot) */
    return 0;
}
