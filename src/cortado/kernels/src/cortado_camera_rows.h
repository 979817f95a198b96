/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops over a row's pixels, of any format: each of its files defines them for its own pixels.
 */
#ifndef CORTADO_CAMERA_ROWS_H
#define CORTADO_CAMERA_ROWS_H

#include "cortado_camera.h"

#define CORTADO_CAMERA_INLINE static inline __attribute__((always_inline))

/* The channels of a pixel, 0 to 255. */
typedef void cortado_pixel_t(const cortado_camera_t *C, const uint8_t *line, uint32_t at, int32_t p[3]);

CORTADO_CAMERA_INLINE int32_t cortado_camera_luma(const cortado_camera_t *C, int32_t a, int32_t b, int32_t c)
{
    return (a * C->luma[0] + b * C->luma[1] + c * C->luma[2] + 128) >> 8;
}

CORTADO_CAMERA_INLINE int32_t cortado_camera_byte(int32_t value)
{
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

CORTADO_CAMERA_INLINE void cortado_camera_nearest(const cortado_camera_t *C, const uint8_t *line, int8_t *out,
                                                  int32_t channels, cortado_pixel_t *pixel)
{
    out += C->first;
    for (int32_t x = 0; x < C->width; x++) {
        int32_t p[3];
        pixel(C, line, C->columns[x].at, p);
        for (int32_t c = 0; c < channels; c++) {
            out[c * C->channel_step] = C->codes[c * 256 + p[c]];
        }
        out += C->pixel_step;
    }
}

CORTADO_CAMERA_INLINE void cortado_camera_bilinear(const cortado_camera_t *C, const uint8_t *line, uint16_t *held,
                                                   int32_t weight, int32_t keep, int8_t *out, int32_t channels,
                                                   cortado_pixel_t *pixel)
{
    int8_t *to = out == NULL ? NULL : out + C->first;
    for (int32_t x = 0; x < C->width; x++) {
        const int32_t across = C->columns[x].weight;
        int32_t p[3], q[3];
        pixel(C, line, C->columns[x].at, p);
        if (across != 0) {
            pixel(C, line, C->columns[x].at + 1u, q);
        }
        for (int32_t c = 0; c < channels; c++) {
            const int32_t h = 256 * p[c] + (across != 0 ? (q[c] - p[c]) * across : 0);
            if (to != NULL) {
                const int32_t v = weight != 0 ? 256 * held[c] + (h - held[c]) * weight : 256 * h;
                to[c * C->channel_step] = C->codes[c * 256 + ((v + 32768) >> 16)];
            }
            if (keep != 0) {
                held[c] = (uint16_t)h;
            }
        }
        held += keep != 0 || weight != 0 ? channels : 0;
        to = to == NULL ? NULL : to + C->pixel_step;
    }
}

/* The four functions of a format. */
#define CORTADO_CAMERA_FORMAT(name, colour, grey)                                                                      \
    void cortado_camera_##name##_nearest(const cortado_camera_t *C, const uint8_t *line, int8_t *out)                  \
    {                                                                                                                  \
        cortado_camera_nearest(C, line, out, 3, colour);                                                               \
    }                                                                                                                  \
    void cortado_camera_##name##_nearest_grey(const cortado_camera_t *C, const uint8_t *line, int8_t *out)             \
    {                                                                                                                  \
        cortado_camera_nearest(C, line, out, 1, grey);                                                                 \
    }                                                                                                                  \
    void cortado_camera_##name##_bilinear(const cortado_camera_t *C, const uint8_t *line, uint16_t *held,              \
                                          int32_t weight, int32_t keep, int8_t *out)                                   \
    {                                                                                                                  \
        cortado_camera_bilinear(C, line, held, weight, keep, out, 3, colour);                                          \
    }                                                                                                                  \
    void cortado_camera_##name##_bilinear_grey(const cortado_camera_t *C, const uint8_t *line, uint16_t *held,         \
                                               int32_t weight, int32_t keep, int8_t *out)                              \
    {                                                                                                                  \
        cortado_camera_bilinear(C, line, held, weight, keep, out, 1, grey);                                            \
    }

#endif
