/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolution by pointers to taps: see depthwise_pixel_s8.h.
 *
 * Tile: 1 pixel x 4 channels. Scratch: a pointer per tap, with DSP an even number of them.
 */
#include "depthwise_pixel_s8.h"

void CORTADO_ISA(cortado_depthwise_s8)(const cortado_depthwise_packed_t *L, const int8_t *const rows[], int8_t *out,
                                       void *scratch)
{
    const int8_t **const taps = scratch, **end = taps + L->kernel_h * L->kernel_w;
    if (CORTADO_DEPTHWISE_TAPS == 2 && (end - taps) % 2 != 0) {
        *end++ = L->zero; /* its weights are 0 */
    }
    const cortado_depthwise_pixel_t layer = {L->weights, (const int8_t *const *)taps, (const int8_t *const *)end,
                                             L->in_c,    L->out_offset,               L->act_min,
                                             L->act_max};
    int inside = 0;
    for (int32_t x = 0, left = -L->pad_left; x < L->out_w; x++, left += L->stride_w) {
        inside = cortado_depthwise_point(L, rows, left, inside, taps);
        CORTADO_ISA(cortado_depthwise_pixel_s8)(&layer, out);
        out += L->in_c;
    }
}
