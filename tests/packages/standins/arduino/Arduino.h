// What a sketch sees of an Arduino core.
#pragma once
#include <stdint.h>
#include <stdio.h>

struct StandInSerial {
    void begin(unsigned long) {}
    explicit operator bool() const { return true; }
    void print(const char *text) { printf("%s", text); }
    void print(int number) { printf("%d", number); }
    void println(const char *text) { printf("%s\n", text); }
};
extern StandInSerial Serial;
void setup();
void loop();
