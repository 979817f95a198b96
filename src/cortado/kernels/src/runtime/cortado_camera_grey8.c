/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixels of one byte; of a network of three channels, each is that.
 */
#include "cortado_camera_rows.h"

CORTADO_CAMERA_INLINE cortado_channels_t colour(const cortado_camera_t *C, const uint8_t *line, uint32_t at)
{
    const cortado_channels_t p = {line[at], line[at], line[at]};
    (void)C;
    return p;
}

CORTADO_CAMERA_INLINE cortado_channels_t grey(const cortado_camera_t *C, const uint8_t *line, uint32_t at)
{
    const cortado_channels_t light = {line[at], 0, 0};
    (void)C;
    return light;
}

CORTADO_CAMERA_FORMAT(grey8, colour, grey)
