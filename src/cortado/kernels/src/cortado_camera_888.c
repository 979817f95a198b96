/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixels of three bytes.
 */
#include "cortado_camera_rows.h"

CORTADO_CAMERA_INLINE void colour(const cortado_camera_t *C, const uint8_t *line, uint32_t at, int32_t p[3])
{
    (void)C;
    p[0] = line[3 * at];
    p[1] = line[3 * at + 1];
    p[2] = line[3 * at + 2];
}

CORTADO_CAMERA_INLINE void grey(const cortado_camera_t *C, const uint8_t *line, uint32_t at, int32_t p[3])
{
    p[0] = cortado_camera_luma(C, line[3 * at], line[3 * at + 1], line[3 * at + 2]);
}

CORTADO_CAMERA_FORMAT(888, colour, grey)
