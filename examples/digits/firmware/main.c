/* Reads one digit. A product would get its picture from a camera and tell somebody. */
#include "digits.h"

static digits_arena_t arena;
/* A bright "7": 8x8 pixels, 0 to 1. */
static const float picture[8 * 8] = {
    0, 0, 0, 0, 0, 0, 0, 0, /**/ 0, 0, 1, 1, 1, 0, 0, 0, /**/ 0, 0, 0, 0, 1, 0, 0, 0, /**/ 0, 0, 0, 1, 0, 0, 0, 0,
    0, 0, 0, 1, 0, 0, 0, 0, /**/ 0, 0, 0, 1, 0, 0, 0, 0, /**/ 0, 0, 0, 0, 0, 0, 0, 0, /**/ 0, 0, 0, 0, 0, 0, 0, 0,
};

volatile int digit;

int main(void)
{
    digits_quantize_input(&arena, 0, picture);
    digits_run(&arena);
    const int8_t *scores = digits_output(&arena, 0);
    int best = 0;
    for (int i = 1; i < DIGITS_OUTPUT0_BYTES; i++) {
        if (scores[i] > scores[best]) {
            best = i;
        }
    }
    digit = best;
    return best;
}
