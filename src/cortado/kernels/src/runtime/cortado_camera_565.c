/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixels of 16 bits, the lower byte first: 5 bits of a colour, 6 of green, 5 of the other. A colour's upper bits are
 * also its lowest ones, so that all of them set are 255.
 */
#include "cortado_camera_rows.h"

CORTADO_CAMERA_INLINE cortado_channels_t colour(const cortado_camera_t *C, const uint8_t *line, uint32_t at)
{
    const uint32_t word = line[2 * at] | ((uint32_t)line[2 * at + 1] << 8);
    const uint32_t five = word >> 11, six = (word >> 5) & 63u, low = word & 31u;
    const cortado_channels_t p = {(int32_t)((five << 3) | (five >> 2)), (int32_t)((six << 2) | (six >> 4)),
                                  (int32_t)((low << 3) | (low >> 2))};
    (void)C;
    return p;
}

CORTADO_CAMERA_INLINE cortado_channels_t grey(const cortado_camera_t *C, const uint8_t *line, uint32_t at)
{
    const cortado_channels_t p = colour(C, line, at);
    const cortado_channels_t light = {cortado_camera_luma(C, p.a, p.b, p.c), 0, 0};
    return light;
}

CORTADO_CAMERA_FORMAT(565, colour, grey)
