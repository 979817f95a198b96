/* SPDX-License-Identifier: Apache-2.0
 *
 * Table lookup: any function of one value.
 *
 * Tile: 4 elements. Scratch: none.
 */
#include "cortado.h"

void cortado_table_s8(const int8_t table[256], const int8_t *in, int8_t *out, int32_t n)
{
    const int8_t *middle = table + 128;
    for (; n >= 4; n -= 4, in += 4, out += 4) {
        out[0] = middle[in[0]];
        out[1] = middle[in[1]];
        out[2] = middle[in[2]];
        out[3] = middle[in[3]];
    }
    for (; n > 0; n--) {
        *out++ = middle[*in++];
    }
}
