/* SPDX-License-Identifier: Apache-2.0
 *
 * Average and maximum pooling in float32, one output row: per pixel, over the window in the image.
 *
 * Tile: 1 pixel x 1 channel. Scratch: none.
 */
#include "cortado_float.h"

typedef struct {
    float value;
    int32_t count; /* of taps in the image */
} found_t;

static void take(const cortado_pool2d_f32_t *L, float v, found_t *found)
{
    if (found->count == 0) {
        found->value = v;
    } else if (L->how == CORTADO_MEAN) {
        found->value = found->value + v;
    } else if (v > found->value || v != v) {
        found->value = v;
    }
    found->count++;
}

static found_t window_of(const cortado_pool2d_f32_t *L, const int8_t *const rows[], int32_t left, int32_t c)
{
    found_t found = {0.0f, 0};
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        for (int32_t kx = 0; kx < L->kernel_w; kx++) {
            const int32_t x = left + kx * L->dilation_w;
            if (rows[ky] != NULL && x >= 0 && x < L->in_w) {
                take(L, cortado_numbers(rows[ky])[x * L->channels + c], &found);
            }
        }
    }
    return found;
}

void cortado_pool2d_f32(const cortado_pool2d_f32_t *L, const int8_t *const rows[], float *out)
{
    for (int32_t x = 0; x < L->out_w; x++) {
        for (int32_t c = 0; c < L->channels; c++) {
            found_t found = window_of(L, rows, x * L->stride_w - L->pad_left, c);
            if (L->how == CORTADO_MEAN) {
                found.value = found.value / (float)(L->divisor != 0 ? L->divisor : found.count);
            }
            *out++ = cortado_bounded(found.value, L->act_min, L->act_max);
        }
    }
}
