/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs of sums in float32: within bounds, of NaN the canonical one. Internal.
 */
#ifndef CORTADO_FINISH_F32_H
#define CORTADO_FINISH_F32_H

#include "cortado_sums_f32.h"

/* Sums to outputs; without bounds, bits are what is looked at: of a NaN more than infinity's. */
static CORTADO_ONCE void cortado_finish_f32(const cortado_tile_f32_t *T, const float *sums, float *out)
{
    const float low = T->low, high = T->high;
    const float *const end = sums + T->channels;
    if (cortado_f32_bits(low) != 0xFF800000u || cortado_f32_bits(high) != 0x7F800000u) {
        while (sums < end) {
            *out++ = cortado_bounded(*sums++, low, high);
            CORTADO_STAY_A_LOOP;
        }
    } else {
        while (sums < end) {
            const uint32_t bits = cortado_f32_bits(*sums++);
            *out++ = cortado_f32_from(bits << 1 > 0xFF000000u ? 0x7FC00000u : bits);
            CORTADO_STAY_A_LOOP;
        }
    }
}

#endif /* CORTADO_FINISH_F32_H */
