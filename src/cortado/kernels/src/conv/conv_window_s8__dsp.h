/* SPDX-License-Identifier: Apache-2.0
 *
 * The windows of two pixels, laid out for the inner loops of convolution with DSP instructions. Internal.
 *
 * Halfwords, two products per multiply (SMLAD). Of each four products k .. k + 3, first the words (x[k], x[k + 2]) of
 * both pixels, then the words (x[k + 1], x[k + 3]). Inner loops that read two pixels in any case find a copy of the
 * first in place of a second one that is none.
 */
#ifndef CONV_WINDOW_S8__DSP_H
#define CONV_WINDOW_S8__DSP_H

#include "cortado.h"
#include "cortado_math.h"

int32_t *cortado_conv_expand_s8__dsp(int32_t *to, const int8_t *x, int32_t n);

/* Up to two pixels of 1x1 convolution, and as many as the inner loop reads. */
static inline void cortado_conv_pixels(const int8_t *in, int32_t in_c, int32_t pixels, int32_t reads,
                                       int32_t *x)
{
    (void)cortado_conv_expand_s8__dsp(x, in, in_c);
    if (reads > 1) {
        (void)cortado_conv_expand_s8__dsp(x + 1, pixels > 1 ? in + in_c : in, in_c);
    }
}

void cortado_conv_rows_s8__dsp(int8_t *to, const int8_t *const rows[], int32_t from, int32_t n, int32_t count);
void cortado_conv_nines_s8__dsp(int32_t *x, const int8_t *const rows[], int32_t from, int32_t step);

/* Where a kernel reads: the group's first channel, its channels per tap, and the last column from which on a window is
 * in the image and each of its rows one run of bytes (below 0: none is). */
typedef struct {
    const cortado_conv2d_packed_t *L;
    const int8_t *const *rows;
    int32_t first, depth, last;
} cortado_conv_source_t;

static inline cortado_conv_source_t cortado_conv_source(const cortado_conv2d_packed_t *L, const int8_t *const rows[])
{
    cortado_conv_source_t S = {L, rows, 0, L->in_c / L->groups, -1};
#if !defined(CORTADO_ALIGNED_ONLY)
    if (L->dilation_w == 1 && L->groups == 1) {
        S.last = L->in_w - L->kernel_w;
        for (int32_t ky = 0; ky < L->kernel_h; ky++) {
            S.last = rows[ky] != NULL ? S.last : -1;
        }
    }
#endif
    return S;
}

/* n bytes as products of one pixel; or, not wide, as bytes. */
static CORTADO_ONCE void *put(void *at, int wide, const int8_t *from, int32_t n)
{
    int8_t *to = at;
    if (wide != 0) {
        return cortado_conv_expand_s8__dsp(at, from, n);
    }
    for (; n >= 4; n -= 4) {
        cortado_store4(to, cortado_load4(from));
        to += 4;
        from += 4;
    }
    for (; n > 0; n--) {
        *to++ = *from++;
    }
    return to;
}

/* The window of one pixel, from column `left` on. Taps without gaps inside the image are one run of bytes. */
static CORTADO_ONCE void gather(const cortado_conv_source_t *S, int32_t left, void *to, int wide)
{
    const cortado_conv2d_packed_t *L = S->L;
    const int32_t run = L->dilation_w == 1 && L->groups == 1 ? L->in_w : 0;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        const int8_t *row = S->rows[ky];
        for (int32_t kx = 0, x = left; kx < L->kernel_w;) {
            const int inside = row != NULL && x >= 0 && x < L->in_w;
            const int32_t taps = inside && x < run ? cortado_min(L->kernel_w - kx, run - x) : 1;
            to = put(to, wide, (inside ? row + x * L->in_c : L->zero) + S->first, taps * S->depth);
            kx += taps;
            x += taps * L->dilation_w;
        }
    }
}

/* Gathers the windows that the inner loop reads, `size` products each. Products come in fours: taps of other sizes
 * are gathered as bytes first, behind the pixels. */
static inline void cortado_conv_windows(const cortado_conv_source_t *S, int32_t left, int32_t pixels, int32_t reads,
                                        int32_t size, int32_t *x)
{
    const cortado_conv2d_packed_t *L = S->L;
    const int direct = S->depth % 4 == 0;
    const int32_t whole = (size + 3) & ~3, step = pixels > 1 ? L->stride_w : 0;
    int32_t *const window = x + whole;
#if !defined(CORTADO_ALIGNED_ONLY)
    if (size == 27 && L->kernel_h == 3 && left >= 0 && left + step <= S->last) {
        cortado_conv_nines_s8__dsp(x, S->rows, left * L->in_c, step * L->in_c);
        return;
    }
#endif
    if (!direct) {
        window[whole / 4 - 1] = 0; /* completes the last four products */
    }
    for (int32_t i = 0; i < reads; i++) {
#if !defined(CORTADO_ALIGNED_ONLY)
        if (!direct && left >= 0 && left <= S->last) {
            cortado_conv_rows_s8__dsp((int8_t *)window, S->rows, left * L->in_c, L->kernel_w * L->in_c, L->kernel_h);
        } else
#endif
        {
            gather(S, left, direct ? x + i : window, direct);
        }
        if (!direct) {
            (void)cortado_conv_expand_s8__dsp(x + i, (const int8_t *)window, whole);
        }
        left += step;
        CORTADO_STAY_A_LOOP;
    }
}

#endif /* CONV_WINDOW_S8__DSP_H */
