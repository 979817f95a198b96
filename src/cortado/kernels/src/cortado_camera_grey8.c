/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixels of one byte; of a network of three channels, each is that.
 */
#include "cortado_camera_rows.h"

CORTADO_CAMERA_INLINE void colour(const cortado_camera_t *C, const uint8_t *line, uint32_t at, int32_t p[3])
{
    (void)C;
    p[0] = line[at];
    p[1] = line[at];
    p[2] = line[at];
}

CORTADO_CAMERA_INLINE void grey(const cortado_camera_t *C, const uint8_t *line, uint32_t at, int32_t p[3])
{
    (void)C;
    p[0] = line[at];
}

CORTADO_CAMERA_FORMAT(grey8, colour, grey)
