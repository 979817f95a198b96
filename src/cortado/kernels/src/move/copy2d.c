/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of bytes from one stride to another; bytes of any type.
 *
 * Tile: 1 run of bytes. Scratch: none.
 */
#include "cortado.h"
#include "cortado_copy.h"

void cortado_copy2d(const int8_t *in, int32_t in_stride, int8_t *out, int32_t out_stride, int32_t width,
                    int32_t height)
{
    for (; height > 0; height--) {
        cortado_copy(out, in, (size_t)width);
        in += in_stride;
        out += out_stride;
    }
}
