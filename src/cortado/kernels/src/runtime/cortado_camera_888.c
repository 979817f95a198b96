/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixels of three bytes.
 */
#include "cortado_camera_rows.h"

CORTADO_CAMERA_INLINE cortado_channels_t colour(const cortado_camera_t *C, const uint8_t *line, uint32_t at)
{
    const cortado_channels_t p = {line[3 * at], line[3 * at + 1], line[3 * at + 2]};
    (void)C;
    return p;
}

CORTADO_CAMERA_INLINE cortado_channels_t grey(const cortado_camera_t *C, const uint8_t *line, uint32_t at)
{
    const cortado_channels_t light = {cortado_camera_luma(C, line[3 * at], line[3 * at + 1], line[3 * at + 2]), 0, 0};
    return light;
}

CORTADO_CAMERA_FORMAT(888, colour, grey)
