/* SPDX-License-Identifier: Apache-2.0
 *
 * Records leave by the UART of the nRF51, on the micro:bit, whose memory is too small to keep them.
 */
#include "wire.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define START_SENDING REGISTER(0x40002008u)
#define SENT REGISTER(0x4000211Cu)
#define ENABLE REGISTER(0x40002500u)
#define DATA REGISTER(0x4000251Cu)

enum { ENABLED = 4 };

void cortado_wire_start(void) {
    ENABLE = ENABLED;
    START_SENDING = 1;
}

void cortado_wire_send(const uint8_t *data, size_t bytes) {
    size_t i;

    for (i = 0; i < bytes; ++i) {
        SENT = 0;
        DATA = data[i];
        while (SENT == 0) {
        }
    }
}
