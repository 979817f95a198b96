/* SPDX-License-Identifier: Apache-2.0
 *
 * Average and maximum pooling: each output row is one call of a row kernel.
 */
#include "arguments.h"
#include "arm_limits.h"
#include "cortado.h"
#include "cortex_m_ops.h"
#include "rows.h"
#include "workspace.h"

namespace cortado {

namespace {

Error read_pool(ArrayRef<int64_t> kernel, ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, Window &window)
{
    window.dilation = {1, 1};
    CORTADO_TRY(read_pair(kernel, 1, "kernel_size", window.kernel));
    CORTADO_TRY(read_pair(stride, 1, "stride", window.stride));
    CORTADO_TRY(read_pair(padding, 0, "padding", window.padding));
    /* Then every window has a pixel inside the image, also the first. */
    CORTADO_REQUIRE(window.padding.h < window.kernel.h && window.padding.w < window.kernel.w, InvalidArgument,
                    "padding: expected less than the kernel's size");
    return Error::Ok;
}

cortado_pool2d_t describe(const Window &window, const Image &in, const Image &out, int64_t low, int64_t high)
{
    return {in.width,        in.channels,      out.width,         window.kernel.h,           window.kernel.w,
            window.stride.w, window.padding.w, window.dilation.w, static_cast<int32_t>(low), static_cast<int32_t>(high)};
}

Error avg_pool2d(KernelRuntimeContext &context, Layout layout, const Tensor &input, const Window &window,
                 bool ceil_mode, const Tensor &scratch, Tensor &result)
{
    Image in, out;
    CORTADO_TRY(read_image(input, layout, "input", in));
    CORTADO_TRY(slide(in, window, ceil_mode, out));
    CORTADO_TRY(check_scratch(scratch, {0, 4 * int64_t(in.channels), 0}, "scratch"));
    CORTADO_TRY(resize_image(result, layout, out));
    const cortado_pool2d_t layer = describe(window, in, out, -128, 127);
    Workspace workspace(context, scratch);
    const int8_t **rows = nullptr;
    CORTADO_TRY(workspace.take(static_cast<size_t>(window.kernel.h), rows));
    for_each_row(SlidingRows{in, window}, int8_data(input), out, result.mutable_data_ptr<int8_t>(), rows,
                 [&](int8_t *to) { cortado_avg_pool2d_s8(&layer, rows, to, nullptr); });
    return Error::Ok;
}

struct MaxPool {
    bool ceil_mode;
    int64_t input_zero_point, output_zero_point, activation_min, activation_max;
};

Error max_pool2d(KernelRuntimeContext &context, Layout layout, const Tensor &input, const Window &window,
                 const MaxPool &pool, Tensor &result)
{
    Image in, out;
    CORTADO_TRY(read_image(input, layout, "input", in));
    CORTADO_TRY(check_bounds(pool.activation_min, pool.activation_max));
    CORTADO_REQUIRE(pool.input_zero_point == pool.output_zero_point, NotSupported,
                    "maximum pooling keeps the zero point, found two");
    CORTADO_REQUIRE(!pool.ceil_mode, InvalidArgument, "ceil_mode: the runtime's maximum pooling has none");
    CORTADO_REQUIRE(window.dilation.h == 1 && window.dilation.w == 1, InvalidArgument,
                    "dilation: the runtime's maximum pooling has none");
    CORTADO_TRY(slide(in, window, false, out));
    CORTADO_TRY(resize_image(result, layout, out));
    const cortado_pool2d_t layer = describe(window, in, out, pool.activation_min, pool.activation_max);
    Workspace workspace(context);
    const int8_t **rows = nullptr;
    CORTADO_TRY(workspace.take(static_cast<size_t>(window.kernel.h), rows));
    for_each_row(SlidingRows{in, window}, int8_data(input), out, result.mutable_data_ptr<int8_t>(), rows,
                 [&](int8_t *to) { cortado_max_pool2d_s8(&layer, rows, to); });
    return Error::Ok;
}

} // namespace

} // namespace cortado

/* ---- The operators ------------------------------------------------------------------------------------------------ */

namespace cortex_m {
namespace native {

using namespace cortado;

/* The output has the input's scale and zero point, so the last three numbers change nothing. */
#define CORTADO_AVG_POOL2D(name, layout)                                                                              \
    Tensor &name(KernelRuntimeContext &context, const Tensor &input, ArrayRef<int64_t> kernel_size,                   \
                 ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, bool ceil_mode, int64_t zero_point,             \
                 int64_t multiplier, int64_t shift, const Tensor &scratch, Tensor &out)                               \
    {                                                                                                                 \
        Window window = {};                                                                                           \
        (void)zero_point, (void)multiplier, (void)shift;                                                              \
        Error error = read_pool(kernel_size, stride, padding, window);                                                \
        if (error == Error::Ok) {                                                                                     \
            error = avg_pool2d(context, layout, input, window, ceil_mode, scratch, out);                              \
        }                                                                                                             \
        return finish(context, error, out);                                                                           \
    }

CORTADO_AVG_POOL2D(quantized_avg_pool2d_nhwc_out, Layout::nhwc)
CORTADO_AVG_POOL2D(quantized_avg_pool2d_out, Layout::nchw)

#define CORTADO_MAX_POOL2D(name, layout)                                                                              \
    Tensor &name(KernelRuntimeContext &context, const Tensor &input, ArrayRef<int64_t> kernel_size,                   \
                 ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation, bool ceil_mode,     \
                 int64_t input_zero_point, int64_t output_zero_point, int64_t activation_min, int64_t activation_max, \
                 Tensor &out)                                                                                         \
    {                                                                                                                 \
        Window window = {};                                                                                           \
        Error error = read_pool(kernel_size, stride, padding, window);                                                \
        if (error == Error::Ok) {                                                                                     \
            error = read_pair(dilation, 1, "dilation", window.dilation);                                              \
        }                                                                                                             \
        if (error == Error::Ok) {                                                                                     \
            error = max_pool2d(context, layout, input, window,                                                        \
                               {ceil_mode, input_zero_point, output_zero_point, activation_min, activation_max}, out);\
        }                                                                                                             \
        return finish(context, error, out);                                                                           \
    }

CORTADO_MAX_POOL2D(quantized_max_pool2d_nhwc_out, Layout::nhwc)
CORTADO_MAX_POOL2D(quantized_max_pool2d_out, Layout::nchw)

} // namespace native
} // namespace cortex_m
