#pragma once
#include <stdbool.h>
#include <stdint.h>
static inline bool stdio_init_all(void) { return true; }
static inline bool stdio_usb_connected(void) { return true; }
static inline void sleep_ms(uint32_t ms) { (void)ms; }
