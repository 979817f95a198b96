/* Words in sound. The recording lies in flash; what a DMA leaves in a buffer every 20 ms, the loop takes from there. */
#include "spotter.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))

extern const int16_t recording[]; /* written by spot.py */
extern const uint32_t recording_samples;

static const char *const names[] = SPOTTER_CLASS_NAMES;

static void start_uart(void)
{
    REGISTER(0x40023844u) |= 1u << 4; /* RCC_APB2ENR: USART1 */
    REGISTER(0x4001100Cu) = 0x2008u;  /* CR1: the port on, its transmitter too */
}

static void print(const char *text)
{
    for (; *text != 0; text++) {
        while ((REGISTER(0x40011000u) & 0x80u) == 0) { /* SR: the last byte is on its way */
        }
        REGISTER(0x40011004u) = (uint32_t)*text;
    }
}

static void print_number(uint32_t number, int digits)
{
    char text[11];
    int at = 10;
    text[10] = 0;
    do {
        text[--at] = (char)('0' + number % 10u);
        number /= 10u;
        digits--;
    } while (number != 0 || digits > 0);
    print(text + at);
}

static void heard(uint32_t samples, const char *word)
{
    const uint32_t hundredths = samples / 160u; /* of a second, at 16 kHz */
    print_number(hundredths / 100u, 1);
    print(".");
    print_number(hundredths % 100u, 2);
    print(" s: ");
    print(word);
    print("\n");
}

int main(void)
{
    void *arena = spotter_default_arena();
    start_uart();
    spotter_reset(arena);
    for (uint32_t at = 0; at + SPOTTER_PUSH_SAMPLES <= recording_samples; at += SPOTTER_PUSH_SAMPLES) {
        if (spotter_push(arena, recording + at) == 1) {
            const int word = spotter_decision(arena);
            if (word != SPOTTER_NO_DECISION) {
                heard(at + SPOTTER_PUSH_SAMPLES, names[word]);
            }
        }
    }
    print("the recording is over\n");
    REGISTER(0xE000ED0Cu) = 0x05FA0004u; /* a reset: where the emulator ends (-no-reboot) */
    return 0;
}
