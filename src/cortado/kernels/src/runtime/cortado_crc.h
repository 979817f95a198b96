/* SPDX-License-Identifier: Apache-2.0
 *
 * The CRC-32 of zlib and Ethernet, two bits at a time: small, and fast enough for what is read once.
 */
#ifndef CORTADO_CRC_H
#define CORTADO_CRC_H

#include <stddef.h>
#include <stdint.h>

#include "cortado_math.h"

/* Continues the CRC `crc` of earlier bytes; 0 for the first. */
CORTADO_ONCE static uint32_t cortado_crc32(uint32_t crc, const void *data, size_t bytes)
{
    static const uint32_t table[4] = {0x00000000u, 0x76DC4190u, 0xEDB88320u, 0x9B64C2B0u}; /* of two bits */
    const uint8_t *at = data;
    crc = ~crc;
    for (; bytes > 0; bytes--) {
        crc ^= *at++;
        for (int i = 0; i < 4; i++) {
            crc = table[crc & 3u] ^ (crc >> 2);
        }
    }
    return ~crc;
}

#endif /* CORTADO_CRC_H */
