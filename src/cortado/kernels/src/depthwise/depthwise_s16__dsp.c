/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolution of 16-bit codes with 8-bit weights, with DSP instructions: see depthwise_pixel_s16.h.
 *
 * Tile: 1 pixel x 4 channels. Scratch: a pointer per tap.
 *
 * Weights are 16 bits wide: beside nine products a channel they are few, and each is used once for a pixel.
 *
 * The stream, for each four channels; the last four may repeat some of those before:
 *
 *   | biases 4 x 4 | weights of channels 0, 1, 2, 3, each 2 |  for each tap
 *   | 2 * multiplier, modulo 2^32 4 | right shift 4, at least 1 |  of each channel, as conv_tile_s16__dsp.S has them
 */
#include "depthwise_pixel_s16.h"

#if defined(__ARM_FEATURE_DSP)
#include "cortado_dsp.h"

typedef struct {
    int32_t a, b, c, d;
} sums_t;

/* The products of all taps and four channels; codes lie two in a word. */
static inline const int32_t *add_taps(sums_t *sum, const int16_t *const *taps, int32_t count, int32_t channel,
                                      const int32_t *stream)
{
    int32_t a = *stream++, b = *stream++, c = *stream++, d = *stream++;
    for (; count > 0; count--) {
        const int8_t *const x = (const int8_t *)(const void *)(*taps++ + channel);
        const int32_t low = cortado_load4(x), high = cortado_load4(x + 4), ab = *stream++, cd = *stream++;
        __asm__("smlabb %0, %1, %2, %0" : "+r"(a) : "r"(low), "r"(ab));
        __asm__("smlatt %0, %1, %2, %0" : "+r"(b) : "r"(low), "r"(ab));
        __asm__("smlabb %0, %1, %2, %0" : "+r"(c) : "r"(high), "r"(cd));
        __asm__("smlatt %0, %1, %2, %0" : "+r"(d) : "r"(high), "r"(cd));
    }
    sum->a = a;
    sum->b = b;
    sum->c = c;
    sum->d = d;
    return stream;
}

static inline int32_t scaled(int32_t sum, const int32_t *factor)
{
    __asm__("smmlar %0, %0, %1, %0\n\t"
            "add %0, %0, %0, asr #31\n\t"
            "asrs %0, %0, %2\n\t"
            "adc %0, %0, #0"
            : "+&r"(sum)
            : "r"(factor[0]), "r"(factor[1])
            : "cc");
    return sum;
}

/* Two codes as a word, within the halves of low and high. */
static inline int32_t codes(int32_t a, int32_t b, int32_t low, int32_t high)
{
    int32_t free;
    __asm__("ssat %0, #16, %0\n\t"
            "ssat %1, #16, %1\n\t"
            "pkhbt %0, %0, %1, lsl #16\n\t"
            "ssub16 %2, %0, %3\n\t"
            "sel %0, %0, %3\n\t"
            "ssub16 %2, %4, %0\n\t"
            "sel %0, %0, %4"
            : "+&r"(a), "+&r"(b), "=&r"(free)
            : "r"(low), "r"(high)
            : "cc");
    return a;
}

/* All channels of a pixel under any window. */
static void one_pixel(const cortado_wide_pixel_t *P, int16_t *out)
{
    const int32_t *stream = (const int32_t *)(const void *)P->stream;
    const int32_t low = (int32_t)((uint32_t)P->low << 16 | (uint16_t)P->low);
    const int32_t high = (int32_t)((uint32_t)P->high << 16 | (uint16_t)P->high);
    for (int32_t channel = 0; channel < P->channels; channel = cortado_next4(channel, P->channels)) {
        sums_t sum;
        stream = add_taps(&sum, P->taps, P->count, channel, stream);
        int8_t *const to = (int8_t *)(void *)(out + channel);
        cortado_store4(to, codes(scaled(sum.a, stream), scaled(sum.b, stream + 2), low, high));
        cortado_store4(to + 4, codes(scaled(sum.c, stream + 4), scaled(sum.d, stream + 6), low, high));
        stream += 8;
    }
}

void cortado_depthwise_s16__dsp(const cortado_layer_s16_packed_t *L, const int8_t *const rows[], int16_t *out,
                                void *scratch)
{
    const int16_t **const taps = scratch;
    const cortado_wide_pixel_t pixel = {
        (const int16_t *const *)taps, L->weights, L->kernel_h * L->kernel_w, L->in_c, L->act_min, L->act_max,
    };
#if defined(CORTADO_ALIGNED_ONLY)
    const int nine = 0; /* its loads are words at any halfword */
#else
    const int nine = pixel.count == 9;
#endif
    int inside = 0;
    for (int32_t x = 0, left = -L->pad_left; x < L->out_w; x++, left += L->stride_w, out += L->in_c) {
        inside = cortado_wide_point(L, rows, left, inside, taps);
        if (nine != 0) {
            cortado_depthwise_nine_s16__dsp(&pixel, out);
        } else {
            one_pixel(&pixel, out);
        }
    }
}
#else
typedef int cortado_depthwise_s16_needs_dsp; /* an empty translation unit is not C */
#endif
