/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions: each output row is one call of a row kernel.
 */
#include "arguments.h"
#include "arm_limits.h"
#include "cortado.h"
#include "cortex_m_ops.h"
#include "rows.h"
#include "workspace.h"

#include <algorithm>
#include <cstring>

namespace cortado {

namespace {

/* What every convolution is told besides its window. */
struct Rescaling {
    int64_t input_offset, output_offset;
    const Tensor &multipliers, &shifts;
    int64_t activation_min, activation_max;
};

/* The tensors of a call, and how their sizes are written. */
struct Operands {
    Layout layout;
    const Tensor &input, &weight;
    const std::optional<Tensor> &bias;
    const Tensor &scratch;
    Tensor &out;
};

Error check_rescaling(const Rescaling &r, int32_t channels)
{
    CORTADO_TRY(check_negated_zero_point(r.input_offset, "input_offset"));
    CORTADO_TRY(check_zero_point(r.output_offset, "output_offset"));
    CORTADO_TRY(check_bounds(r.activation_min, r.activation_max));
    return check_fixed_points(r.multipliers, r.shifts, channels);
}

Error read_window(ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation, Window &window)
{
    CORTADO_TRY(read_pair(stride, 1, "stride", window.stride));
    CORTADO_TRY(read_pair(padding, 0, "padding", window.padding));
    CORTADO_TRY(read_pair(dilation, 1, "dilation", window.dilation));
    const int32_t largest = std::max({window.stride.w, window.padding.w, window.dilation.w});
    CORTADO_REQUIRE(largest <= INT16_MAX, NotSupported, "the window is too large");
    return Error::Ok;
}

/* Weights of a rank 4 tensor, none of its sizes 0. */
Error check_weight(const Tensor &weight)
{
    CORTADO_TRY(check_plain(weight, ScalarType::Char, "weight"));
    CORTADO_REQUIRE(weight.dim() == 4 && weight.numel() > 0, InvalidArgument, "weight: expected four dimensions");
    CORTADO_REQUIRE(weight.size(1) <= INT16_MAX && weight.size(2) <= INT16_MAX, NotSupported,
                    "weight: the window is too large");
    return Error::Ok;
}

/* OHWI weights: they see all input channels, or those of one of several equal groups. */
Error read_groups(const Tensor &weight, const Image &in, int32_t &groups)
{
    const auto depth = static_cast<int32_t>(weight.size(3));
    CORTADO_REQUIRE(in.channels % depth == 0, InvalidArgument,
                    "weight: its input channels don't divide the input's");
    groups = in.channels / depth;
    CORTADO_REQUIRE(weight.size(0) % groups == 0, InvalidArgument,
                    "weight: its output channels don't divide into groups");
    return Error::Ok;
}

/* The pixel that taps outside the image read; none where no tap can be outside. */
Error zero_pixel(Workspace &workspace, const Window &window, int32_t channels, int64_t input_offset,
                 const int8_t *&pixel)
{
    pixel = nullptr;
    if (window.padding.h == 0 && window.padding.w == 0) {
        return Error::Ok;
    }
    int8_t *place = nullptr;
    CORTADO_TRY(workspace.take(static_cast<size_t>(channels), place));
    std::memset(place, static_cast<int>(-input_offset), static_cast<size_t>(channels));
    pixel = place;
    return Error::Ok;
}

/* Sets a field to a number that was checked to fit. */
template <class Field>
void put(Field &field, int64_t value)
{
    field = static_cast<Field>(value);
}

/* Fields that the descriptors of all convolutions share. */
template <class Layer>
void describe(Layer &layer, const Operands &t, const Rescaling &r, const Window &window, const Image &in,
              const Image &out)
{
    layer.in_w = in.width;
    layer.in_c = in.channels;
    layer.out_w = out.width;
    layer.out_c = out.channels;
    put(layer.kernel_h, window.kernel.h);
    put(layer.kernel_w, window.kernel.w);
    put(layer.stride_w, window.stride.w);
    put(layer.pad_left, window.padding.w);
    put(layer.dilation_w, window.dilation.w);
    put(layer.in_offset, r.input_offset);
    put(layer.out_offset, r.output_offset);
    put(layer.act_min, r.activation_min);
    put(layer.act_max, r.activation_max);
    layer.weights = int8_data(t.weight);
    layer.multiplier = r.multipliers.const_data_ptr<int32_t>();
    layer.shift = r.shifts.const_data_ptr<int32_t>();
}

/* ---- conv2d ------------------------------------------------------------------------------------------------------- */

bool is_pointwise(const Window &w)
{
    return w.kernel.h == 1 && w.kernel.w == 1 && w.stride.h == 1 && w.stride.w == 1 && w.padding.h == 0 &&
           w.padding.w == 0;
}

/* 1x1, stride 1: all pixels of all images in one go. */
void run_pointwise(const cortado_conv2d_t &layer, const Operands &t, const Image &out)
{
    cortado_conv1x1_t pointwise = {};
    pointwise.in_c = layer.in_c;
    pointwise.out_c = layer.out_c;
    put(pointwise.in_offset, layer.in_offset);
    put(pointwise.out_offset, layer.out_offset);
    put(pointwise.act_min, layer.act_min);
    put(pointwise.act_max, layer.act_max);
    pointwise.weights = layer.weights;
    pointwise.bias = layer.bias;
    pointwise.multiplier = layer.multiplier;
    pointwise.shift = layer.shift;
    cortado_conv1x1_s8(&pointwise, int8_data(t.input), t.out.mutable_data_ptr<int8_t>(),
                       out.batch * out.height * out.width, nullptr);
}

Error conv2d(KernelRuntimeContext &context, const Operands &t, Window window, const Rescaling &rescaling)
{
    Image in, out;
    cortado_conv2d_t layer = {};
    CORTADO_TRY(read_image(t.input, t.layout, "input", in));
    CORTADO_TRY(check_weight(t.weight));
    CORTADO_TRY(read_groups(t.weight, in, layer.groups));
    window.kernel = {static_cast<int32_t>(t.weight.size(1)), static_cast<int32_t>(t.weight.size(2))};
    CORTADO_TRY(slide(in, window, false, out));
    out.channels = static_cast<int32_t>(t.weight.size(0));
    CORTADO_TRY(check_rescaling(rescaling, out.channels));
    CORTADO_TRY(read_bias(t.bias, out.channels, "bias", layer.bias));
    CORTADO_REQUIRE(layer.groups == 1 || layer.bias != nullptr, InvalidArgument,
                    "bias: found none, and a convolution in groups needs one");
    const auto depth = static_cast<int32_t>(t.weight.size(3));
    CORTADO_TRY(check_convolution(in, window, depth));
    CORTADO_TRY(check_scratch(t.scratch, convolution_scratch(in, out, window, depth), "scratch"));
    CORTADO_TRY(resize_image(t.out, t.layout, out));
    describe(layer, t, rescaling, window, in, out);
    if (is_pointwise(window) && layer.groups == 1) {
        run_pointwise(layer, t, out);
        return Error::Ok;
    }
    Workspace workspace(context, t.scratch);
    const int8_t **rows = nullptr;
    CORTADO_TRY(workspace.take(static_cast<size_t>(window.kernel.h), rows));
    CORTADO_TRY(zero_pixel(workspace, window, in.channels, rescaling.input_offset, layer.zero));
    for_each_row(SlidingRows{in, window}, int8_data(t.input), out, t.out.mutable_data_ptr<int8_t>(), rows,
                 [&](int8_t *to) { cortado_conv2d_s8(&layer, rows, to, nullptr); });
    return Error::Ok;
}

/* ---- depthwise ---------------------------------------------------------------------------------------------------- */

Error depthwise(KernelRuntimeContext &context, const Operands &t, Window window, int64_t depth_multiplier,
                const Rescaling &rescaling)
{
    Image in, out;
    cortado_depthwise_t layer = {};
    CORTADO_TRY(read_image(t.input, t.layout, "input", in));
    CORTADO_TRY(check_weight(t.weight));
    out.channels = static_cast<int32_t>(t.weight.size(3));
    CORTADO_REQUIRE(t.weight.size(0) == 1, InvalidArgument, "weight: expected the sizes 1, height, width, channels");
    CORTADO_REQUIRE(between(depth_multiplier, 1, INT16_MAX) && in.channels * depth_multiplier == out.channels,
                    InvalidArgument, "weight: its channels are not depth_multiplier times the input's");
    put(layer.depth_multiplier, depth_multiplier);
    window.kernel = {static_cast<int32_t>(t.weight.size(1)), static_cast<int32_t>(t.weight.size(2))};
    const int32_t channels = out.channels;
    CORTADO_TRY(slide(in, window, false, out));
    out.channels = channels;
    CORTADO_TRY(check_rescaling(rescaling, channels));
    CORTADO_TRY(read_bias(t.bias, channels, "bias", layer.bias));
    CORTADO_TRY(check_depthwise(in, out, window));
    CORTADO_TRY(check_scratch(t.scratch, depthwise_scratch(in, out, window), "scratch"));
    CORTADO_TRY(resize_image(t.out, t.layout, out));
    describe(layer, t, rescaling, window, in, out);
    Workspace workspace(context, t.scratch);
    const int8_t **rows = nullptr;
    CORTADO_TRY(workspace.take(static_cast<size_t>(window.kernel.h), rows));
    CORTADO_TRY(zero_pixel(workspace, window, in.channels, rescaling.input_offset, layer.zero));
    for_each_row(SlidingRows{in, window}, int8_data(t.input), out, t.out.mutable_data_ptr<int8_t>(), rows,
                 [&](int8_t *to) { cortado_depthwise_s8(&layer, rows, to, nullptr); });
    return Error::Ok;
}

/* ---- transposed --------------------------------------------------------------------------------------------------- */

/* Extent of what a transposed window gives. */
Error spread(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, int64_t extra,
             int32_t &out)
{
    const int64_t extent = (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1;
    CORTADO_REQUIRE(between(extent, 1, int64_t(1) << 28), InvalidArgument, "the result would have no or too many rows");
    out = static_cast<int32_t>(extent);
    return Error::Ok;
}

Error check_transpose_scratch(const Operands &t, const Tensor &output_scratch, const Image &in, const Image &out,
                              const Window &window)
{
    const TransposeScratch needed = transpose_scratch(in, out, window);
    CORTADO_TRY(check_scratch(t.scratch, needed.sums, "scratch"));
    return check_scratch(output_scratch, needed.weights, "output_scratch");
}

/* CMSIS-NN keeps reversed weights in output_scratch; Cortado's kernel needs nothing of the kind. */
Error transpose_conv2d(KernelRuntimeContext &context, const Operands &t, const Tensor &output_scratch, Window window,
                       ArrayRef<int64_t> output_padding, const Rescaling &rescaling)
{
    Image in, out;
    Pair extra;
    cortado_transpose_conv2d_t layer = {};
    CORTADO_TRY(read_image(t.input, t.layout, "input", in));
    CORTADO_TRY(check_weight(t.weight));
    CORTADO_TRY(read_groups(t.weight, in, layer.groups));
    CORTADO_REQUIRE(layer.groups == 1, NotSupported, "weight: CMSIS-NN's transposed convolution knows no groups");
    CORTADO_TRY(read_pair(output_padding, 0, "output_padding", extra));
    window.kernel = {static_cast<int32_t>(t.weight.size(1)), static_cast<int32_t>(t.weight.size(2))};
    out.batch = in.batch;
    out.channels = static_cast<int32_t>(t.weight.size(0));
    CORTADO_TRY(spread(in.height, window.kernel.h, window.stride.h, window.padding.h, window.dilation.h, extra.h,
                       out.height));
    CORTADO_TRY(spread(in.width, window.kernel.w, window.stride.w, window.padding.w, window.dilation.w, extra.w,
                       out.width));
    CORTADO_TRY(check_transpose(in, window, extra));
    CORTADO_TRY(check_transpose_scratch(t, output_scratch, in, out, window));
    CORTADO_TRY(check_rescaling(rescaling, out.channels));
    CORTADO_TRY(read_bias(t.bias, out.channels, "bias", layer.bias));
    CORTADO_TRY(resize_image(t.out, t.layout, out));
    describe(layer, t, rescaling, window, in, out);
    Workspace workspace(context, t.scratch);
    const int8_t **rows = nullptr;
    CORTADO_TRY(workspace.take(static_cast<size_t>(window.kernel.h), rows));
    for_each_row(SpreadingRows{in, window}, int8_data(t.input), out, t.out.mutable_data_ptr<int8_t>(), rows,
                 [&](int8_t *to) { cortado_transpose_conv2d_s8(&layer, rows, to, nullptr); });
    return Error::Ok;
}

} // namespace

} // namespace cortado

/* ---- The operators ------------------------------------------------------------------------------------------------ */

namespace cortex_m {
namespace native {

using namespace cortado;

#define CORTADO_CONV2D(name, layout)                                                                                  \
    Tensor &name(KernelRuntimeContext &context, const Tensor &input, const Tensor &weight,                           \
                 const std::optional<Tensor> &bias, ArrayRef<int64_t> stride, ArrayRef<int64_t> padding,              \
                 ArrayRef<int64_t> dilation, int64_t input_offset, int64_t output_offset,                             \
                 const Tensor &requantize_multipliers, const Tensor &requantize_shifts, int64_t activation_min,       \
                 int64_t activation_max, const Tensor &scratch, Tensor &out)                                          \
    {                                                                                                                 \
        Window window = {};                                                                                           \
        Error error = read_window(stride, padding, dilation, window);                                                 \
        if (error == Error::Ok) {                                                                                     \
            error = conv2d(context, {layout, input, weight, bias, scratch, out}, window,                              \
                           {input_offset, output_offset, requantize_multipliers, requantize_shifts, activation_min,   \
                            activation_max});                                                                         \
        }                                                                                                             \
        return finish(context, error, out);                                                                           \
    }

CORTADO_CONV2D(quantized_conv2d_nhwc_out, Layout::nhwc)
CORTADO_CONV2D(quantized_conv2d_out, Layout::nchw)

#define CORTADO_DEPTHWISE(name, layout)                                                                               \
    Tensor &name(KernelRuntimeContext &context, const Tensor &input, const Tensor &weight,                           \
                 const std::optional<Tensor> &bias, ArrayRef<int64_t> stride, ArrayRef<int64_t> padding,              \
                 ArrayRef<int64_t> dilation, int64_t depth_multiplier, int64_t input_offset, int64_t output_offset,   \
                 const Tensor &requantize_multipliers, const Tensor &requantize_shifts, int64_t activation_min,       \
                 int64_t activation_max, const Tensor &scratch, Tensor &out)                                          \
    {                                                                                                                 \
        Window window = {};                                                                                           \
        Error error = read_window(stride, padding, dilation, window);                                                 \
        if (error == Error::Ok) {                                                                                     \
            error = depthwise(context, {layout, input, weight, bias, scratch, out}, window, depth_multiplier,         \
                              {input_offset, output_offset, requantize_multipliers, requantize_shifts,                \
                               activation_min, activation_max});                                                      \
        }                                                                                                             \
        return finish(context, error, out);                                                                           \
    }

CORTADO_DEPTHWISE(quantized_depthwise_conv2d_nhwc_out, Layout::nhwc)
CORTADO_DEPTHWISE(quantized_depthwise_conv2d_out, Layout::nchw)

#define CORTADO_TRANSPOSE_CONV2D(name, layout)                                                                        \
    Tensor &name(KernelRuntimeContext &context, const Tensor &input, const Tensor &weight,                           \
                 const std::optional<Tensor> &bias, ArrayRef<int64_t> stride, ArrayRef<int64_t> padding,              \
                 ArrayRef<int64_t> output_padding, ArrayRef<int64_t> dilation, int64_t input_offset,                  \
                 int64_t output_offset, const Tensor &requantize_multipliers, const Tensor &requantize_shifts,        \
                 int64_t activation_min, int64_t activation_max, const Tensor &scratch, const Tensor &output_scratch, \
                 Tensor &out)                                                                                         \
    {                                                                                                                 \
        Window window = {};                                                                                           \
        Error error = read_window(stride, padding, dilation, window);                                                 \
        if (error == Error::Ok) {                                                                                     \
            error = transpose_conv2d(context, {layout, input, weight, bias, scratch, out}, output_scratch, window,    \
                                     output_padding,                                                                  \
                                     {input_offset, output_offset, requantize_multipliers, requantize_shifts,         \
                                      activation_min, activation_max});                                               \
        }                                                                                                             \
        return finish(context, error, out);                                                                           \
    }

CORTADO_TRANSPOSE_CONV2D(quantized_transpose_conv2d_nhwc_out, Layout::nhwc)
CORTADO_TRANSPOSE_CONV2D(quantized_transpose_conv2d_out, Layout::nchw)

} // namespace native
} // namespace cortex_m
