/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels ask of their arguments before they touch any data. Every function returns Error::Ok, or logs what
 * is wrong and returns the code that the runtime reports.
 */
#ifndef CORTADO_ARGUMENTS_H
#define CORTADO_ARGUMENTS_H

#include <executorch/runtime/kernel/kernel_includes.h>

#include <cstddef>
#include <cstdint>
#include <optional>

/* How many bytes of stack a kernel may use for row pointers and a padding pixel when the call's scratch tensor is too
 * small for them; see workspace.h. */
#ifndef CORTADO_ET_STACK_BYTES
#define CORTADO_ET_STACK_BYTES 1024
#endif

#define CORTADO_REQUIRE(condition, error, ...) ET_CHECK_OR_RETURN_ERROR(condition, error, __VA_ARGS__)

#define CORTADO_TRY(expression)                                \
    do {                                                       \
        const ::cortado::Error cortado_error = (expression);   \
        if (cortado_error != ::cortado::Error::Ok) {           \
            return cortado_error;                              \
        }                                                      \
    } while (false)

namespace cortado {

using executorch::aten::ArrayRef;
using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::KernelRuntimeContext;

constexpr size_t max_rank = 6;

/* Ends a kernel: tells the runtime how it went, and returns its output. */
inline Tensor &finish(KernelRuntimeContext &context, Error error, Tensor &out)
{
    if (error != Error::Ok) {
        context.fail(error);
    }
    return out;
}

inline bool between(int64_t value, int64_t low, int64_t high) { return low <= value && value <= high; }

/* ---- Tensors ------------------------------------------------------------------------------------------------------ */

/* A tensor of this type with data behind it, aligned for it. */
Error check_tensor(const Tensor &tensor, ScalarType type, const char *name);

/* And it has at most max_rank dimensions, and its elements lie in their order. */
Error check_plain(const Tensor &tensor, ScalarType type, const char *name);

/* Gives the output these sizes and checks it like any tensor; a tensor of static shape must have them already. */
Error resize(Tensor &out, ScalarType type, ArrayRef<SizesType> sizes);

/* The output takes the shape, and has the memory order, of `like`. */
Error resize_like(Tensor &out, ScalarType type, const Tensor &like);

inline const int8_t *int8_data(const Tensor &tensor) { return tensor.const_data_ptr<int8_t>(); }

/* ---- Images ------------------------------------------------------------------------------------------------------- */

/* How an operator writes the sizes of an image; in memory the channels are always innermost. */
enum class Layout {
    nhwc, /* sizes N, H, W, C */
    nchw, /* sizes N, C, H, W with the channels-last order of dimensions */
};

struct Image {
    int32_t batch, height, width, channels;
};

struct Pair {
    int32_t h, w;
};

struct Window {
    Pair kernel, stride, padding, dilation;
};

Error read_image(const Tensor &tensor, Layout layout, const char *name, Image &image);
Error resize_image(Tensor &out, Layout layout, const Image &image);

/* Two numbers that are at least `low`. */
Error read_pair(ArrayRef<int64_t> values, int64_t low, const char *name, Pair &pair);

/* Height and width of what a window gives when it slides over an image. */
Error slide(const Image &in, const Window &window, bool ceil_mode, Image &out);

/* ---- Quantization ------------------------------------------------------------------------------------------------- */

/* int8 zero points: `value` as it is, or negated. */
Error check_zero_point(int64_t value, const char *name);
Error check_negated_zero_point(int64_t value, const char *name);
Error check_bounds(int64_t low, int64_t high);
Error check_fixed_point(int64_t multiplier, int64_t shift);

/* One multiplier and shift per channel. */
Error check_fixed_points(const Tensor &multipliers, const Tensor &shifts, int32_t channels);

/* One int32 per channel, or none: then `data` is null. */
Error read_bias(const std::optional<Tensor> &bias, int32_t channels, const char *name, const int32_t *&data);

} // namespace cortado

#endif /* CORTADO_ARGUMENTS_H */
