/* Prints a sum over the results of each function of cortado_f32.h, on patterns of bits: equal sums, equal bits. */
#include "float32_functions.h"
#include "port.h"

#ifndef PATTERNS
#define PATTERNS 2000
#endif

int main(void)
{
    static const char digits[] = "0123456789abcdef";
    for (int32_t function = 0; function < UNARY + BINARY; function++) {
        uint32_t sum = 0;
        for (uint32_t i = 0; i < PATTERNS; i++) {
            const float x = cortado_f32_from(pattern(i)), y = cortado_f32_from(second_pattern(i));
            sum += cortado_f32_bits(value_of(function, x, y)) * (2 * i + 1);
        }
        char text[10];
        for (int32_t k = 0; k < 8; k++) {
            text[k] = digits[sum >> (28 - 4 * k) & 15];
        }
        text[8] = '\n';
        text[9] = 0;
        cortado_port_print(text);
    }
    cortado_port_exit(0);
}
