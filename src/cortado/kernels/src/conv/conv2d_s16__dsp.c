/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution of 16-bit codes with 8-bit weights, with DSP instructions: see conv_tile_s16__dsp.h.
 *
 * Tile: 2 pixels x 4 channels, an odd last one alone. Scratch: 2 windows, 4 bytes per product; taps of an odd number of
 * channels need a window of 2 bytes per product more.
 */
#include "conv_tile_s16__dsp.h"

#if defined(__ARM_FEATURE_DSP)
#include "cortado_wide.h"

/* The kernel's input: the group's first channel, and its channels per tap. */
typedef struct {
    const cortado_layer_s16_packed_t *L;
    const int8_t *const *rows;
    int32_t first, depth;
} source_t;

static CORTADO_ONCE void *put(void *at, int turns, const int16_t *from, int32_t n)
{
    int16_t *to = at;
    if (turns != 0) {
        return cortado_in_turns(at, from, n);
    }
    for (; n >= 2; n -= 2, to += 2, from += 2) {
        cortado_store4((int8_t *)(void *)to, cortado_two_codes(from));
    }
    if (n > 0) {
        *to++ = *from;
    }
    return to;
}

/* The window of one pixel, from column `left` on; in turns: in every second word. Taps without gaps inside the image
 * are one run. */
static CORTADO_ONCE void gather(const source_t *S, int32_t left, void *to, int turns)
{
    const cortado_layer_s16_packed_t *L = S->L;
    const int32_t run = L->dilation_w == 1 && L->groups == 1 ? L->in_w : 0;
    for (int32_t ky = 0; ky < L->kernel_h; ky++) {
        const int16_t *row = cortado_wide_row(S->rows[ky]);
        for (int32_t kx = 0, x = left; kx < L->kernel_w;) {
            const int inside = row != NULL && x >= 0 && x < L->in_w;
            const int32_t taps = inside && x < run ? cortado_min(L->kernel_w - kx, run - x) : 1;
            to = put(to, turns, (inside ? row + x * L->in_c : L->zero) + S->first, taps * S->depth);
            kx += taps;
            x += taps * L->dilation_w;
        }
    }
}

/* Taps of an odd number of codes are gathered without gaps first, behind the pixels. */
static void lay_out(const source_t *S, int32_t left, int32_t size, int32_t *x)
{
    const int direct = S->depth % 2 == 0;
    int16_t *const window = (int16_t *)(void *)(x + ((size + 1) & ~1));
    for (int32_t i = 0; i < 2; i++, left += S->L->stride_w) {
        gather(S, left, direct ? (void *)(x + i) : (void *)window, direct);
        if (!direct) {
            (void)cortado_in_turns(x + i, window, size);
        }
        CORTADO_STAY_A_LOOP;
    }
}

void cortado_conv2d_s16__dsp(const cortado_layer_s16_packed_t *L, const int8_t *const rows[], int16_t *out,
                             void *scratch)
{
    source_t source = {L, rows, 0, L->in_c / L->groups};
    const int32_t channels = L->out_c / L->groups, size = L->kernel_h * L->kernel_w * source.depth;
    cortado_wide_tile_t tile = {L->weights, size, channels, 2 * L->out_c, L->act_min, L->act_max};
    for (int32_t group = 0; group < L->groups; group++) {
        const int8_t *next = tile.stream;
        int32_t left = -L->pad_left, x = 0;
        for (; x + 1 < L->out_w; x += 2, left += 2 * L->stride_w) {
            lay_out(&source, left, size, scratch);
            next = cortado_conv_tile2_s16__dsp(&tile, scratch, out + x * L->out_c);
        }
        if (x < L->out_w) {
            gather(&source, left, scratch, 0);
            next = cortado_conv_tile1_s16__dsp(&tile, scratch, out + x * L->out_c);
        }
        tile.stream = next;
        source.first += source.depth;
        out += channels;
    }
}
#else
typedef int cortado_conv2d_s16_needs_dsp; /* an empty translation unit is not C */
#endif
