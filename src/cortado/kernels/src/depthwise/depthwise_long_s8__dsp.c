/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolution with long multiplies, any number of outputs for each channel: depthwise_long_rows_s8__dsp.h.
 *
 * Tile: 4 pixels x 1 channel. Scratch: the columns under one row of outputs, two in a word, of 4 channels, and 128
 * bytes.
 */
#include "depthwise_long_rows_s8__dsp.h"

#if defined(__ARM_FEATURE_DSP)

/* The lower column of a word, counted from the first one; the upper one is a stride further. */
static inline int32_t column_of(int32_t word, int32_t stride)
{
    return stride == 1 ? 2 * word : word / 2 * 4 + word % 2;
}

static void fill(int32_t *to, int32_t words, int32_t value)
{
    for (int32_t i = 0; i < 4 * words; i++) {
        to[i] = value;
        CORTADO_STAY_A_LOOP;
    }
}

/* Words of which the image has all columns come by fours of columns; of the others, those that have some are edges, and
 * the rest is filled, as rows outside of the image are, for all channels. */
static void plan(const cortado_conv2d_packed_t *L, const cortado_long_shape_t *S, cortado_long_edge_t *edge,
                 cortado_depthwise_long_t *P)
{
    const int32_t s = L->stride_w, w = L->in_w, z = L->zero[0];
    const int32_t zeros = (int32_t)((uint32_t)z + ((uint32_t)z << LONG_LANE));
    const int32_t first = s == 1 ? (S->pad + 1) / 2 : (S->pad + 3) / 4 * 2;
    const int32_t column = column_of(first, s) - S->pad;
    const int32_t room = s == 1 ? S->words - first : (S->words - first) / 2 * 2;
    const int32_t have = column >= w ? 0 : s == 1 ? (w - column) / 2 : (w - column) / 4 * 2;
    P->inside = cortado_max(cortado_min(have, room), 0);
    P->first = column * L->in_c;
    P->to = 16 * first;
    P->edges = edge;
    for (int32_t i = 0; i < S->words; i++) {
        const int32_t low = column_of(i, s) - S->pad, high = low + s;
        const int32_t inside = (low >= 0 && low < w ? 1 : 0) + (high >= 0 && high < w ? 2 : 0);
        if (i >= first && i < first + P->inside) {
            continue;
        }
        if (inside != 0) {
            edge->low = low * L->in_c;
            edge->high = high * L->in_c;
            edge->to = 16 * i;
            edge->inside = inside;
            edge++;
        }
        for (int32_t r = 0; r < L->kernel_h && inside == 0; r++) {
            fill(P->data + (r * S->words + i) * 4, 1, zeros);
        }
    }
    P->edges_end = edge;
    for (int32_t r = 0; r < L->kernel_h; r++) {
        if (P->rows[r] == NULL) {
            fill(P->data + r * S->words * 4, S->words, zeros);
        }
    }
}

void cortado_depthwise_long_s8__dsp(const cortado_conv2d_packed_t *L, const int8_t *const rows[], int8_t *out,
                                    void *scratch)
{
    const cortado_long_shape_t S = cortado_long_shape(L);
    const int32_t words = cortado_long_words(L->kernel_w, L->stride_w);
    const int8_t *stream = L->weights;
    cortado_long_edge_t *const edges = scratch;
    cortado_depthwise_long_t P;
    P.data = (int32_t *)(void *)(edges + LONG_EDGES_MOST);
    P.rows = rows;
    P.kernel_h = L->kernel_h;
    P.row_bytes = S.words * 16;
    P.channels = L->in_c;
    P.zeros = (uint8_t)L->zero[0] * 0x01010101u;
    P.stride = L->stride_w;
    P.loop = 2 * (words - 2) + L->stride_w - 1;
    P.entry = 0;
    if (words == 3 && L->stride_w == 1 && L->kernel_h <= 5) {
        P.loop = LONG_FIVE_ROWS;
        P.entry = (5 - L->kernel_h) * LONG_ROW_CODE;
    }
    P.back = L->kernel_h * P.row_bytes - 32 * L->stride_w;
    P.step = L->out_c;
    P.offset = L->out_offset;
    P.skip = 1 + S.outputs - L->out_w;
    P.last = S.outputs - (4 * S.tiles - 5);
    P.low = (uint8_t)L->act_min * 0x01010101u;
    P.high = (uint8_t)L->act_max * 0x01010101u;
    P.each = L->out_c / L->in_c;
    P.stream_bytes = 4 * (3 + L->kernel_h * words);
    P.state = (uint32_t)S.tiles | LONG_FIRST_TILE | LONG_SPECIAL;
    P.state |= L->act_min > -128 || L->act_max < 127 ? LONG_CLAMPED : 0u;
    plan(L, &S, edges, &P);
    for (int32_t channel = 0; channel < L->in_c; channel += 4) {
        const int32_t at = cortado_min(channel, L->in_c - 4); /* the last four may have some of those before */
        cortado_depthwise_pairs_s8__dsp(&P, at);
        stream = cortado_depthwise_long_row_s8__dsp(&P, stream, out + at * P.each);
    }
}
#else
typedef int cortado_depthwise_long_needs_dsp; /* an empty translation unit is not C */
#endif
