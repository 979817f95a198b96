/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops over a row's pixels, of any format: each of its files defines them for its own pixels.
 */
#ifndef CORTADO_CAMERA_ROWS_H
#define CORTADO_CAMERA_ROWS_H

#include "cortado_camera.h"

#define CORTADO_CAMERA_INLINE static inline __attribute__((always_inline))

/* A number for each channel, in the sensor's order; of grey the first alone. Three names: they are registers. */
typedef struct {
    int32_t a, b, c;
} cortado_channels_t;

/* The channels of a pixel, 0 to 255. */
typedef cortado_channels_t cortado_pixel_t(const cortado_camera_t *C, const uint8_t *line, uint32_t at);

CORTADO_CAMERA_INLINE int32_t cortado_camera_luma(const cortado_camera_t *C, int32_t a, int32_t b, int32_t c)
{
    return (a * C->luma[0] + b * C->luma[1] + c * C->luma[2] + 128) >> 8;
}

CORTADO_CAMERA_INLINE int32_t cortado_camera_byte(int32_t value)
{
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

CORTADO_CAMERA_INLINE int32_t cortado_camera_between(int32_t first, int32_t second, int32_t weight)
{
    return 256 * first + (second - first) * weight;
}

/* A store of a code may alias any variable for the compiler, so constants are read before the loop. */
CORTADO_CAMERA_INLINE void cortado_camera_nearest(const cortado_camera_t *C, const uint8_t *line, int8_t *out,
                                                  int32_t channels, cortado_pixel_t *pixel)
{
    const int8_t *const codes = C->codes;
    const cortado_tap_t *tap = C->columns, *const end = tap + C->width;
    const int32_t pixel_step = C->pixel_step, channel_step = C->channel_step;
    for (out += C->first; tap < end; tap++, out += pixel_step) {
        const cortado_channels_t p = pixel(C, line, tap->at);
        out[0] = codes[p.a];
        if (channels > 1) {
            out[channel_step] = codes[256 + p.b];
            out[2 * channel_step] = codes[512 + p.c];
        }
    }
}

/* The sums across a pixel and the next. */
CORTADO_CAMERA_INLINE cortado_channels_t cortado_camera_across(const cortado_camera_t *C, const uint8_t *line,
                                                               const cortado_tap_t *tap, int32_t channels,
                                                               cortado_pixel_t *pixel)
{
    const int32_t weight = tap->weight;
    cortado_channels_t h = pixel(C, line, tap->at);
    const cortado_channels_t next = weight == 0 ? h : pixel(C, line, tap->at + 1u);
    h.a = cortado_camera_between(h.a, next.a, weight);
    if (channels > 1) {
        h.b = cortado_camera_between(h.b, next.b, weight);
        h.c = cortado_camera_between(h.c, next.c, weight);
    }
    return h;
}

CORTADO_CAMERA_INLINE void cortado_camera_hold(uint16_t *held, cortado_channels_t h, int32_t channels)
{
    held[0] = (uint16_t)h.a;
    if (channels > 1) {
        held[1] = (uint16_t)h.b;
        held[2] = (uint16_t)h.c;
    }
}

CORTADO_CAMERA_INLINE void cortado_camera_bilinear(const cortado_camera_t *C, const uint8_t *line, uint16_t *held,
                                                   int32_t weight, int32_t keep, int8_t *out, int32_t channels,
                                                   cortado_pixel_t *pixel)
{
    const int8_t *const codes = C->codes;
    const cortado_tap_t *tap = C->columns, *const end = tap + C->width;
    const int32_t pixel_step = C->pixel_step, channel_step = C->channel_step;
    if (out == NULL) {
        for (; tap < end; tap++, held += channels) {
            cortado_camera_hold(held, cortado_camera_across(C, line, tap, channels, pixel), channels);
        }
        return;
    }
    for (out += C->first; tap < end; tap++, out += pixel_step) {
        const cortado_channels_t h = cortado_camera_across(C, line, tap, channels, pixel);
        cortado_channels_t v = {256 * h.a, 256 * h.b, 256 * h.c};
        if (weight != 0) {
            v.a = cortado_camera_between(held[0], h.a, weight);
            if (channels > 1) {
                v.b = cortado_camera_between(held[1], h.b, weight);
                v.c = cortado_camera_between(held[2], h.c, weight);
            }
        }
        out[0] = codes[(v.a + 32768) >> 16];
        if (channels > 1) {
            out[channel_step] = codes[256 + ((v.b + 32768) >> 16)];
            out[2 * channel_step] = codes[512 + ((v.c + 32768) >> 16)];
        }
        if (keep != 0) {
            cortado_camera_hold(held, h, channels);
        }
        if (keep != 0 || weight != 0) { /* else there need not be a line that is held */
            held += channels;
        }
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
