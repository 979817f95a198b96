/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of 0 to 255 as codes of -128 to 127, and back: the highest bit of each flipped.
 *
 * Tile: 4 elements. Scratch: none.
 */
#include "cortado.h"
#include "cortado_math.h"

void cortado_flip_u8(const int8_t *in, int8_t *out, int32_t n)
{
    for (; n >= 4; n -= 4, in += 4, out += 4) {
        cortado_store4(out, (int32_t)((uint32_t)cortado_load4(in) ^ 0x80808080u));
    }
    for (; n > 0; n--) {
        *out++ = (int8_t)(*in++ ^ -128);
    }
}
