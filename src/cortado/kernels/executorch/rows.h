/* SPDX-License-Identifier: Apache-2.0
 *
 * Which input rows an output row is made of, and the loop that makes all rows of all images.
 */
#ifndef CORTADO_ROWS_H
#define CORTADO_ROWS_H

#include "arguments.h"

#include <cstddef>
#include <cstdint>

namespace cortado {

/* Convolutions and pools: tap row k of output row y is input row y * stride - padding + k * dilation. */
struct SlidingRows {
    Image in;
    Window window;

    /* The input row, or -1 if there is none. */
    int32_t row(int32_t y, int32_t k) const
    {
        const int32_t at = y * window.stride.h - window.padding.h + k * window.dilation.h;
        return at >= 0 && at < in.height ? at : -1;
    }
};

/* Transposed convolutions: input row i spreads to the output rows i * stride - padding + k * dilation. */
struct SpreadingRows {
    Image in;
    Window window;

    int32_t row(int32_t y, int32_t k) const
    {
        const int32_t at = y + window.padding.h - k * window.dilation.h;
        return at >= 0 && at % window.stride.h == 0 && at / window.stride.h < in.height ? at / window.stride.h : -1;
    }
};

/* Calls make(output row) for every output row, with `rows` pointing to its input rows, NULL where there is none. */
template <class Rows, class Make>
void for_each_row(const Rows &source, const int8_t *input, const Image &out, int8_t *output, const int8_t **rows,
                  Make make)
{
    const size_t in_row = static_cast<size_t>(source.in.width) * static_cast<size_t>(source.in.channels);
    const size_t out_row = static_cast<size_t>(out.width) * static_cast<size_t>(out.channels);
    for (int32_t image = 0; image < out.batch; image++) {
        for (int32_t y = 0; y < out.height; y++) {
            for (int32_t k = 0; k < source.window.kernel.h; k++) {
                const int32_t row = source.row(y, k);
                rows[k] = row < 0 ? nullptr : input + static_cast<size_t>(row) * in_row;
            }
            make(output);
            output += out_row;
        }
        input += static_cast<size_t>(source.in.height) * in_row;
    }
}

} // namespace cortado

#endif /* CORTADO_ROWS_H */
