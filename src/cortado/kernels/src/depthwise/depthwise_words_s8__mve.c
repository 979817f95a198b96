/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolution under windows of at most four columns and four rows, with any number of outputs of each
 * channel, with vector instructions: columns are laid out so that one vector has all taps of an output. See
 * depthwise_words_pixels_s8__mve.h.
 *
 * Tile: 2 pixels x 4 outputs. Scratch: columns of at most 16 channels, 4 bytes each, and 64 bytes.
 */
#include "depthwise_words_pixels_s8__mve.h"

#if defined(__ARM_FEATURE_MVE)

/* Four rows; what is under no tap has weights of 0. Columns of fewer than sixteen channels lie together where all rows
 * are inside the image. */
static void point(const cortado_conv2d_packed_t *L, const int8_t *const rows[], cortado_words_columns_t *from)
{
    int32_t less = L->in_c < 16 ? 16 : 0;
    for (int32_t ky = 0; ky < 4; ky++) {
        const int8_t *row = rows[ky < L->kernel_h ? ky : 0];
        int32_t step = L->in_c;
        if (row == NULL) {
            row = L->zero;
            step = less = 0;
        }
        from->from[ky] = row;
        from->step[ky] = step;
    }
    from->less = less;
    from->zero = L->zero;
}

/* Lays out columns `left` to `end`, of the channels from `first` on. */
static void lay_out(const cortado_words_columns_t *from, const cortado_conv2d_packed_t *L, int32_t left, int32_t end,
                    int32_t first, int8_t *to)
{
    const int32_t last = cortado_min(end, L->in_w);
    if (left < 0) {
        const int32_t outside = cortado_min(end, 0) - left;
        cortado_words_columns_s8__mve(from, to, outside, -1);
        to += outside * from->column;
        left += outside;
    }
    if (left < last) {
        cortado_words_columns_s8__mve(from, to, last - left, left * L->in_c + first);
        to += (last - left) * from->column;
        left = last;
    }
    if (left < end) {
        cortado_words_columns_s8__mve(from, to, end - left, -1);
    }
}

void cortado_depthwise_words_s8__mve(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                     void *scratch)
{
    const int32_t each = L->out_c / L->in_c, run = cortado_words_run(L), beyond = cortado_words_reach(L, 0);
    cortado_words_t words; /* filled field by field: an initializer may become a call */
    cortado_words_columns_t columns;
    point(L, rows, &columns);
    words.stream = L->weights;
    words.out_step = L->out_c;
    words.offset = L->out_offset;
    words.low = L->act_min;
    words.high = L->act_max;
    words.from = scratch;
    for (int32_t first = 0; first < L->in_c; first += 16) {
        const int32_t channels = cortado_min(L->in_c - first, 16), column = 4 * channels;
        columns.column = column;
        words.outputs = channels * each;
        words.step = L->stride_w * column;
        words.column = L->dilation_w * column;
        words.last = (L->kernel_w - 1) * words.column;
        int8_t *to = out + first * each;
        int32_t left = -L->pad_left;
        for (int32_t more = L->out_w; more > 0; more -= run) {
            const int32_t n = cortado_min(more, run), next = left + n * L->stride_w;
            lay_out(&columns, L, left, next + beyond, first, scratch);
            cortado_depthwise_words_pixels_s8__mve(&words, to, n);
            to += n * L->out_c;
            left = next;
        }
        words.stream += ((words.outputs + 3) >> 2) * 128; /* four outputs, with their factors */
    }
}
#else
typedef int cortado_depthwise_words_needs_mve; /* an empty translation unit is not C */
#endif
