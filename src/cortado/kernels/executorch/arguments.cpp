/* SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"

#include <executorch/runtime/core/exec_aten/util/dim_order_util.h>
#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <cinttypes>

namespace cortado {

namespace {

/* Sizes and windows stay below this, so that no index a kernel computes leaves 32 bits. */
constexpr int64_t max_extent = int64_t(1) << 28;

size_t alignment_of(ScalarType type)
{
    return type == ScalarType::Int || type == ScalarType::Float ? 4u : 1u;
}

bool is_plain_order(const Tensor &tensor)
{
    return executorch::runtime::is_contiguous_dim_order(tensor.dim_order().data(), tensor.dim_order().size());
}

/* Is an image's memory order N, H, W, C? Where that order and another are the same bytes, either is right. */
bool is_channels_last(const Tensor &tensor, Layout layout)
{
    const auto order = tensor.dim_order();
    if (layout == Layout::nhwc) {
        return is_plain_order(tensor);
    }
    const bool channels_alone = tensor.size(1) == 1 || (tensor.size(2) == 1 && tensor.size(3) == 1);
    return executorch::runtime::is_channels_last_dim_order(order.data(), order.size()) ||
           (channels_alone && is_plain_order(tensor));
}

/* Positions a window can take along one dimension; 0 if it does not fit. */
int64_t positions(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool ceil_mode)
{
    const int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
    if (room < 0) {
        return 0;
    }
    int64_t count = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    /* A window that ceil_mode adds has to start inside the image or its left padding. */
    if (ceil_mode && (count - 1) * stride >= size + padding) {
        count--;
    }
    return count;
}

} // namespace

/* ---- Tensors ------------------------------------------------------------------------------------------------------ */

Error check_tensor(const Tensor &tensor, ScalarType type, const char *name)
{
    CORTADO_REQUIRE(tensor.scalar_type() == type, InvalidArgument, "%s: found type %s, expected %s", name,
                    executorch::runtime::toString(tensor.scalar_type()), executorch::runtime::toString(type));
    CORTADO_REQUIRE(tensor.numel() < INT32_MAX, NotSupported, "%s: too many elements", name);
    const void *data = tensor.const_data_ptr();
    CORTADO_REQUIRE(data != nullptr || tensor.numel() == 0, InvalidState, "%s: it has no memory", name);
    CORTADO_REQUIRE(reinterpret_cast<uintptr_t>(data) % alignment_of(type) == 0, InvalidArgument,
                    "%s: its data is not aligned", name);
    return Error::Ok;
}

Error check_plain(const Tensor &tensor, ScalarType type, const char *name)
{
    CORTADO_TRY(check_tensor(tensor, type, name));
    CORTADO_REQUIRE(static_cast<size_t>(tensor.dim()) <= max_rank, NotSupported, "%s: found rank %zu, expected up to 6",
                    name, static_cast<size_t>(tensor.dim()));
    CORTADO_REQUIRE(is_plain_order(tensor), NotSupported, "%s: expected its dimensions in plain order", name);
    return Error::Ok;
}

Error resize(Tensor &out, ScalarType type, ArrayRef<SizesType> sizes)
{
    CORTADO_REQUIRE(static_cast<size_t>(out.dim()) == sizes.size(), InvalidArgument,
                    "the output has rank %zu, expected %zu", static_cast<size_t>(out.dim()), sizes.size());
    const Error error = executorch::runtime::resize_tensor(out, sizes);
    CORTADO_REQUIRE(error == Error::Ok, InvalidArgument, "the output can't take the result's shape");
    return check_tensor(out, type, "the output");
}

Error resize_like(Tensor &out, ScalarType type, const Tensor &like)
{
    CORTADO_TRY(resize(out, type, like.sizes()));
    CORTADO_REQUIRE(out.dim_order().equals(like.dim_order()), InvalidArgument,
                    "the output's dimensions are in another order than the input's");
    return Error::Ok;
}

/* ---- Images ------------------------------------------------------------------------------------------------------- */

Error read_image(const Tensor &tensor, Layout layout, const char *name, Image &image)
{
    CORTADO_TRY(check_tensor(tensor, ScalarType::Char, name));
    CORTADO_REQUIRE(tensor.dim() == 4, InvalidArgument, "%s: found rank %zu, expected 4", name,
                    static_cast<size_t>(tensor.dim()));
    for (const SizesType size : tensor.sizes()) {
        CORTADO_REQUIRE(between(size, 1, max_extent), NotSupported, "%s: found a size of %" PRId32, name,
                        static_cast<int32_t>(size));
    }
    CORTADO_REQUIRE(is_channels_last(tensor, layout), NotSupported, "%s: expected channels innermost in memory", name);
    const auto s = tensor.sizes();
    image = layout == Layout::nhwc ? Image{s[0], s[1], s[2], s[3]} : Image{s[0], s[2], s[3], s[1]};
    return Error::Ok;
}

Error resize_image(Tensor &out, Layout layout, const Image &image)
{
    const SizesType nhwc[] = {image.batch, image.height, image.width, image.channels};
    const SizesType nchw[] = {image.batch, image.channels, image.height, image.width};
    CORTADO_TRY(resize(out, ScalarType::Char, ArrayRef<SizesType>(layout == Layout::nhwc ? nhwc : nchw, 4)));
    CORTADO_REQUIRE(is_channels_last(out, layout), NotSupported, "the output: expected channels innermost in memory");
    return Error::Ok;
}

Error read_pair(ArrayRef<int64_t> values, int64_t low, const char *name, Pair &pair)
{
    CORTADO_REQUIRE(values.size() == 2, InvalidArgument, "%s: found %zu numbers, expected 2", name, values.size());
    for (const int64_t value : values) {
        CORTADO_REQUIRE(between(value, low, max_extent), InvalidArgument, "%s: found %" PRId64, name, value);
    }
    pair = {static_cast<int32_t>(values[0]), static_cast<int32_t>(values[1])};
    return Error::Ok;
}

Error slide(const Image &in, const Window &window, bool ceil_mode, Image &out)
{
    const int64_t height = positions(in.height, window.kernel.h, window.stride.h, window.padding.h, window.dilation.h,
                                     ceil_mode);
    const int64_t width = positions(in.width, window.kernel.w, window.stride.w, window.padding.w, window.dilation.w,
                                    ceil_mode);
    CORTADO_REQUIRE(height > 0 && width > 0, InvalidArgument, "the window is larger than the padded image");
    CORTADO_REQUIRE(height <= max_extent && width <= max_extent, NotSupported, "the result is too large");
    out = {in.batch, static_cast<int32_t>(height), static_cast<int32_t>(width), in.channels};
    return Error::Ok;
}

/* ---- Quantization ------------------------------------------------------------------------------------------------- */

Error check_zero_point(int64_t value, const char *name)
{
    CORTADO_REQUIRE(between(value, -128, 127), InvalidArgument, "%s: found %" PRId64 ", expected an int8", name, value);
    return Error::Ok;
}

Error check_negated_zero_point(int64_t value, const char *name)
{
    CORTADO_REQUIRE(between(value, -127, 128), InvalidArgument, "%s: found %" PRId64 ", expected a negated int8", name,
                    value);
    return Error::Ok;
}

Error check_bounds(int64_t low, int64_t high)
{
    CORTADO_REQUIRE(between(low, -128, high) && high <= 127, InvalidArgument,
                    "found activation bounds %" PRId64 " to %" PRId64 ", expected int8s in order", low, high);
    return Error::Ok;
}

Error check_fixed_point(int64_t multiplier, int64_t shift)
{
    /* A negative one subtracts. */
    CORTADO_REQUIRE(between(multiplier, -INT32_MAX, INT32_MAX), InvalidArgument,
                    "found the multiplier %" PRId64 ", expected an int32", multiplier);
    CORTADO_REQUIRE(between(shift, -31, 30), InvalidArgument, "found the shift %" PRId64 ", expected -31 to 30", shift);
    return Error::Ok;
}

Error check_fixed_points(const Tensor &multipliers, const Tensor &shifts, int32_t channels)
{
    CORTADO_TRY(check_tensor(multipliers, ScalarType::Int, "requantize_multipliers"));
    CORTADO_TRY(check_tensor(shifts, ScalarType::Int, "requantize_shifts"));
    const bool listed = multipliers.dim() == 1 && shifts.dim() == 1;
    CORTADO_REQUIRE(listed && multipliers.numel() == channels && shifts.numel() == channels, InvalidArgument,
                    "found %zu multipliers and %zu shifts, expected %" PRId32 " of each in one dimension",
                    static_cast<size_t>(multipliers.numel()), static_cast<size_t>(shifts.numel()), channels);
    const int32_t *multiplier = multipliers.const_data_ptr<int32_t>(), *shift = shifts.const_data_ptr<int32_t>();
    for (int32_t i = 0; i < channels; i++) {
        CORTADO_TRY(check_fixed_point(multiplier[i], shift[i]));
    }
    return Error::Ok;
}

Error read_bias(const std::optional<Tensor> &bias, int32_t channels, const char *name, const int32_t *&data)
{
    data = nullptr;
    if (!bias.has_value()) {
        return Error::Ok;
    }
    CORTADO_TRY(check_tensor(*bias, ScalarType::Int, name));
    CORTADO_REQUIRE(bias->numel() == channels, InvalidArgument, "%s: found %zu elements, expected %" PRId32, name,
                    static_cast<size_t>(bias->numel()), channels);
    data = bias->const_data_ptr<int32_t>();
    return Error::Ok;
}

} // namespace cortado
