/* SPDX-License-Identifier: Apache-2.0
 *
 * Two pixels in four bytes, Y0 U Y1 V, as ITU-R BT.601 has them: of c = Y - 16, d = U - 128, e = V - 128,
 * R = (298 c + 409 e + 128) >> 8, G = (298 c - 100 d - 208 e + 128) >> 8, B = (298 c + 516 d + 128) >> 8, 0 to 255.
 */
#include "cortado_camera_rows.h"

CORTADO_CAMERA_INLINE cortado_channels_t colour(const cortado_camera_t *C, const uint8_t *line, uint32_t at)
{
    const uint8_t *const pair = line + 2 * (at & ~1u);
    const int32_t light = 298 * (line[2 * at] - 16) + 128, d = pair[1] - 128, e = pair[3] - 128;
    const cortado_channels_t p = {
        cortado_camera_byte((light + 409 * e) >> 8),
        cortado_camera_byte((light - 100 * d - 208 * e) >> 8),
        cortado_camera_byte((light + 516 * d) >> 8),
    };
    (void)C;
    return p;
}

CORTADO_CAMERA_INLINE cortado_channels_t grey(const cortado_camera_t *C, const uint8_t *line, uint32_t at)
{
    const cortado_channels_t light = {cortado_camera_byte((298 * (line[2 * at] - 16) + 128) >> 8), 0, 0};
    (void)C;
    return light;
}

CORTADO_CAMERA_FORMAT(yuyv, colour, grey)
