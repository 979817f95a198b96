/* SPDX-License-Identifier: Apache-2.0 */
#include "cortado.h"

#include <string.h>

void cortado_upsample_nearest_s8(const cortado_upsample_t *L, const int8_t *row, int8_t *out)
{
    const size_t channels = (size_t)L->channels;
    int32_t repeat = L->factor;
    for (int32_t x = 0; x < L->out_w; x++) {
        if (L->from != NULL) {
            memcpy(out, row + L->from[x] * L->channels, channels);
        } else {
            memcpy(out, row, channels);
            if (--repeat == 0) {
                repeat = L->factor;
                row += channels;
            }
        }
        out += channels;
    }
}
