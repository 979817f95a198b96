#include <Arduino.h>

StandInSerial Serial;

int main() {
    setup();
    loop();
    return 0;
}
