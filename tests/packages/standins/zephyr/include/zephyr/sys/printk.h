#pragma once
#include <stdarg.h>
#include <stdio.h>

/* Numbers and texts, with little stack, as Zephyr's is. */
static void printk(const char *format, ...) __attribute__((unused));
static void printk(const char *format, ...)
{
    va_list given;
    va_start(given, format);
    for (; *format != 0; format++) {
        if (*format != '%') {
            putchar(*format);
        } else if (*++format == 's') {
            for (const char *text = va_arg(given, const char *); *text != 0; text++) {
                putchar(*text);
            }
        } else {
            const int number = va_arg(given, int);
            for (int ten = number >= 10 ? 10 : 1; ten > 0; ten /= 10) {
                putchar('0' + number / ten % 10);
            }
        }
    }
    va_end(given);
}
