/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of a camera's sensor as rows of a network's int8 input: cropped, resized, normalized, quantized, in integers.
 * MODEL_camera.c has the tables, and says which line makes which row.
 *
 * Across: h = 256 * p[at] + (p[at + 1] - p[at]) * weight of the pixels p of a line. Down: v = 256 * held + (h - held) *
 * weight, where `held` is the h of the line before. The code is codes[(v + 2^15) >> 16], of each channel's own table.
 */
#ifndef CORTADO_CAMERA_H
#define CORTADO_CAMERA_H

#include <stddef.h>
#include <stdint.h>

#include "cortado_endian.h"

#include "cortado_version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first of two neighbours, pixels or lines, and the weight of the second in 256ths; 0 where there is none. */
typedef struct {
    uint16_t at;
    uint16_t weight;
} cortado_tap_t;

typedef struct {
    const cortado_tap_t *columns; /* [width] */
    const int8_t *codes;          /* [channels][256], in the order of the sensor's channels */
    int32_t width;                /* pixels of a row */
    int32_t pixel_step;           /* from one pixel of a row to the next */
    int32_t channel_step;         /* from one channel of a pixel to the next, in the order of the sensor's */
    int32_t first;                /* where the sensor's first channel goes */
    uint16_t luma[4];             /* the weight of each sensor channel in grey, in 256ths */
} cortado_camera_t;

/* The progress of a picture. */
typedef struct {
    uint32_t mark;
    uint16_t line; /* lines that came */
    uint16_t row;  /* rows that were made of them */
} cortado_camera_place_t;

/* A row of a line, one pixel of it for each of the row's. */
typedef void cortado_camera_nearest_t(const cortado_camera_t *C, const uint8_t *line, int8_t *out);

/* A row of a line and of the one before, which is `held`; `weight` is the line's own in 256ths, 0 where it needs no
 * other. With `keep`, the line is held for the next row. Without a place for a row (NULL) it is only held. */
typedef void cortado_camera_bilinear_t(const cortado_camera_t *C, const uint8_t *line, uint16_t *held, int32_t weight,
                                       int32_t keep, int8_t *out);

#define cortado_camera_565_nearest CORTADO_VERSIONED(cortado_camera_565_nearest)
#define cortado_camera_565_nearest_grey CORTADO_VERSIONED(cortado_camera_565_nearest_grey)
#define cortado_camera_565_bilinear CORTADO_VERSIONED(cortado_camera_565_bilinear)
#define cortado_camera_565_bilinear_grey CORTADO_VERSIONED(cortado_camera_565_bilinear_grey)
#define cortado_camera_888_nearest CORTADO_VERSIONED(cortado_camera_888_nearest)
#define cortado_camera_888_nearest_grey CORTADO_VERSIONED(cortado_camera_888_nearest_grey)
#define cortado_camera_888_bilinear CORTADO_VERSIONED(cortado_camera_888_bilinear)
#define cortado_camera_888_bilinear_grey CORTADO_VERSIONED(cortado_camera_888_bilinear_grey)
#define cortado_camera_yuyv_nearest CORTADO_VERSIONED(cortado_camera_yuyv_nearest)
#define cortado_camera_yuyv_nearest_grey CORTADO_VERSIONED(cortado_camera_yuyv_nearest_grey)
#define cortado_camera_yuyv_bilinear CORTADO_VERSIONED(cortado_camera_yuyv_bilinear)
#define cortado_camera_yuyv_bilinear_grey CORTADO_VERSIONED(cortado_camera_yuyv_bilinear_grey)
#define cortado_camera_grey8_nearest CORTADO_VERSIONED(cortado_camera_grey8_nearest)
#define cortado_camera_grey8_nearest_grey CORTADO_VERSIONED(cortado_camera_grey8_nearest_grey)
#define cortado_camera_grey8_bilinear CORTADO_VERSIONED(cortado_camera_grey8_bilinear)
#define cortado_camera_grey8_bilinear_grey CORTADO_VERSIONED(cortado_camera_grey8_bilinear_grey)

/* By the sensor's format, for networks of three channels and of one. */
cortado_camera_nearest_t cortado_camera_565_nearest, cortado_camera_565_nearest_grey;
cortado_camera_nearest_t cortado_camera_888_nearest, cortado_camera_888_nearest_grey;
cortado_camera_nearest_t cortado_camera_yuyv_nearest, cortado_camera_yuyv_nearest_grey;
cortado_camera_nearest_t cortado_camera_grey8_nearest, cortado_camera_grey8_nearest_grey;
cortado_camera_bilinear_t cortado_camera_565_bilinear, cortado_camera_565_bilinear_grey;
cortado_camera_bilinear_t cortado_camera_888_bilinear, cortado_camera_888_bilinear_grey;
cortado_camera_bilinear_t cortado_camera_yuyv_bilinear, cortado_camera_yuyv_bilinear_grey;
cortado_camera_bilinear_t cortado_camera_grey8_bilinear, cortado_camera_grey8_bilinear_grey;

#ifdef __cplusplus
}
#endif

#endif /* CORTADO_CAMERA_H */
