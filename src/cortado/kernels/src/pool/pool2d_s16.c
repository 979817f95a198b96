/* SPDX-License-Identifier: Apache-2.0
 *
 * Average and maximum pooling of 16-bit codes, one output row: per pixel, over the window in the image.
 *
 * Tile: 1 pixel x 1 channel; with vector instructions 8 channels (4 of an average), maxima with DSP instructions 2.
 * Scratch: none.
 */
#include "cortado_wide.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
#endif

/* The taps of a window inside of the image: `count` of them in each row, from `first` on, `step` codes apart. */
typedef struct {
    const int8_t *const *rows;
    int32_t height, first, count, step;
} window_t;

static window_t window_at(const cortado_pool2d_t *L, const int8_t *const rows[], int32_t x)
{
    const int32_t dilation = L->dilation_w, left = x * L->stride_w - L->pad_left;
    const int32_t begin = left < 0 ? (dilation - 1 - left) / dilation : 0;
    const int32_t end = cortado_min((L->in_w - left + dilation - 1) / dilation, L->kernel_w);
    const window_t found = {
        rows, L->kernel_h, (left + begin * dilation) * L->channels, end - begin, dilation * L->channels,
    };
    return found;
}

#if defined(__ARM_FEATURE_MVE)

#define CHANNELS 8

static inline void largest(const window_t *w, const cortado_pool2d_t *L, int32_t c, int16_t *out)
{
    const mve_pred16_t some = vctp16q((uint32_t)(L->channels - c));
    int16x8_t found = vdupq_n_s16((int16_t)L->act_min);
    for (int32_t ky = 0; ky < w->height; ky++) {
        if (w->rows[ky] != NULL) {
            const int16_t *p = cortado_wide_row(w->rows[ky]) + w->first + c;
            for (int32_t n = w->count; n > 0; n--, p += w->step) {
                found = vmaxq_s16(found, vldrhq_z_s16(p, some));
            }
        }
    }
    vstrhq_p_s16(out, vminq_s16(found, vdupq_n_s16((int16_t)L->act_max)), some);
}

#elif defined(__ARM_FEATURE_DSP)

#define CHANNELS 2

static inline int32_t larger_halves(int32_t a, int32_t b)
{
    int32_t v;
    __asm__("ssub16 %0, %1, %2\n\t"
            "sel %0, %1, %2"
            : "=&r"(v)
            : "r"(a), "r"(b)
            : "cc");
    return v;
}

static inline int16_t half_within(const cortado_pool2d_t *L, int32_t v)
{
    return (int16_t)cortado_min(v, L->act_max);
}

/* For an odd last channel, its neighbor after or before it is read too. */
static inline void largest(const window_t *w, const cortado_pool2d_t *L, int32_t c, int16_t *out)
{
    const int32_t alone = c + 1 == L->channels, from = alone && c > 0 ? c - 1 : c;
    int32_t found = (int32_t)(((uint32_t)L->act_min & 0xFFFFu) | ((uint32_t)L->act_min << 16));
    for (int32_t ky = 0; ky < w->height; ky++) {
        if (w->rows[ky] != NULL) {
            const int16_t *p = cortado_wide_row(w->rows[ky]) + w->first + from;
            for (int32_t n = w->count; n > 0; n--, p += w->step) {
                const int32_t codes = L->channels > 1 ? cortado_load4((const int8_t *)p) : *p;
                found = larger_halves(codes, found);
            }
        }
    }
    if (alone != 0) {
        out[0] = half_within(L, c > 0 ? found >> 16 : (int16_t)found);
    } else {
        out[0] = half_within(L, (int16_t)found);
        out[1] = half_within(L, found >> 16);
    }
}

#else

#define CHANNELS 1

static inline void largest(const window_t *w, const cortado_pool2d_t *L, int32_t c, int16_t *out)
{
    int32_t found = L->act_min;
    for (int32_t ky = 0; ky < w->height; ky++) {
        if (w->rows[ky] != NULL) {
            const int16_t *p = cortado_wide_row(w->rows[ky]) + w->first + c;
            for (int32_t n = w->count; n > 0; n--, p += w->step) {
                found = cortado_max(found, *p);
            }
        }
    }
    *out = (int16_t)cortado_min(found, L->act_max);
}

#endif

void cortado_max_pool2d_s16(const cortado_pool2d_t *L, const int8_t *const rows[], int16_t *out)
{
    for (int32_t x = 0; x < L->out_w; x++) {
        const window_t w = window_at(L, rows, x);
        for (int32_t c = 0; c < L->channels; c += CHANNELS) {
            largest(&w, L, c, out + c);
        }
        out += L->channels;
    }
}

/* The sums of up to four channels from c on; how many codes each is of. */
static inline int32_t sums_of(const window_t *w, const cortado_pool2d_t *L, int32_t c, int32_t sums[4])
{
    int32_t count = 0;
#if defined(__ARM_FEATURE_MVE)
    const mve_pred16_t some = vctp32q((uint32_t)(L->channels - c));
    int32x4_t found = vdupq_n_s32(0);
#else
    const int32_t several = cortado_min(L->channels - c, 4);
    int32_t found[4] = {0, 0, 0, 0};
#endif
    for (int32_t ky = 0; ky < w->height; ky++) {
        if (w->rows[ky] != NULL) {
            const int16_t *p = cortado_wide_row(w->rows[ky]) + w->first + c;
            count += w->count;
            for (int32_t n = w->count; n > 0; n--, p += w->step) {
#if defined(__ARM_FEATURE_MVE)
                found = vaddq_s32(found, vldrhq_z_s32(p, some));
#else
                for (int32_t i = 0; i < several; i++) {
                    found[i] += p[i];
                }
#endif
            }
        }
    }
#if defined(__ARM_FEATURE_MVE)
    vst1q_s32(sums, found);
#else
    for (int32_t i = 0; i < 4; i++) {
        sums[i] = found[i];
    }
#endif
    return count;
}

void cortado_avg_pool2d_s16(const cortado_pool2d_t *L, const int8_t *const rows[], int16_t *out, void *scratch)
{
    (void)scratch;
    for (int32_t x = 0; x < L->out_w; x++) {
        const window_t w = window_at(L, rows, x);
        for (int32_t c = 0; c < L->channels; c += 4) {
            int32_t sums[4];
            const int32_t count = sums_of(&w, L, c, sums), several = cortado_min(L->channels - c, 4);
            for (int32_t i = 0; i < several; i++) {
                *out++ = (int16_t)cortado_divide_round(sums[i], count);
            }
        }
    }
}
