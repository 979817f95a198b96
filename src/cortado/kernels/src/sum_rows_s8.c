/* SPDX-License-Identifier: Apache-2.0
 *
 * Global average pooling, any number of rows at a time.
 */
#include "cortado.h"
#include "cortado_math.h"

void cortado_sum_rows_s8(int32_t *acc, const int8_t *in, int32_t pixels, int32_t channels)
{
    for (int32_t c = 0; c < channels; c++) {
        const int8_t *p = in + c;
        int32_t sum = 0;
        for (int32_t i = pixels; i > 0; i--) {
            sum += *p;
            p += channels;
        }
        acc[c] += sum;
    }
}

void cortado_sum_rows_finish_s8(const int32_t *acc, int8_t *out, int32_t channels, int32_t count)
{
    for (int32_t c = 0; c < channels; c++) {
        out[c] = (int8_t)cortado_divide_round(acc[c], count);
    }
}
