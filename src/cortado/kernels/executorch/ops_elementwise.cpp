/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that work element by element, or along the last dimension.
 */
#include "arguments.h"
#include "arm_limits.h"
#include "cortado.h"
#include "cortex_m_ops.h"

#include <executorch/runtime/core/exec_aten/util/dim_order_util.h>

#include <cmath>
#include <cstring>

namespace cortado {

namespace {

/* ---- Two operands ------------------------------------------------------------------------------------------------- */

/* `rounds` spans of `span` elements; an operand with a step of 0 gives the same span to every round. */
struct Spans {
    int32_t span, rounds, self_step, other_step;
};

/* One value for each element along dimension 1, as the runtime knows it: rank 4 on both sides, and dimension 1 innermost
 * in memory, by the order of dimensions or because the runtime takes the sizes for channels-last. */
bool is_per_channel(const Tensor &tensor, const Tensor &one)
{
    if (tensor.dim() != 4 || one.dim() != 4 || tensor.size(1) != one.size(1) || one.numel() != one.size(1)) {
        return false;
    }
    const auto order = tensor.dim_order();
    return is_taken_for_channels_last(tensor) ||
           executorch::runtime::is_channels_last_dim_order(order.data(), order.size());
}

/* Equal shapes, in the same order of dimensions. */
Error pair_equal(const Tensor &self, const Tensor &other, Tensor &out)
{
    CORTADO_TRY(check_tensor(self, ScalarType::Char, "self"));
    CORTADO_TRY(check_tensor(other, ScalarType::Char, "other"));
    CORTADO_REQUIRE(self.sizes().equals(other.sizes()), NotSupported, "expected operands of equal shapes");
    CORTADO_REQUIRE(self.dim_order().equals(other.dim_order()), NotSupported,
                    "the operands' dimensions are in different orders");
    return resize_like(out, ScalarType::Char, self);
}

/* Equal shapes, or one value per channel on one side. The output takes the larger one's shape. */
Error pair_up(const Tensor &self, const Tensor &other, Tensor &out, Spans &spans)
{
    const int32_t n = static_cast<int32_t>(self.numel()), m = static_cast<int32_t>(other.numel());
    if (self.sizes().equals(other.sizes())) {
        spans = {n, 1, n, n};
        return pair_equal(self, other, out);
    }
    CORTADO_TRY(check_tensor(self, ScalarType::Char, "self"));
    CORTADO_TRY(check_tensor(other, ScalarType::Char, "other"));
    if (n > m && is_per_channel(self, other)) {
        spans = {m, n / m, m, 0};
        return resize_like(out, ScalarType::Char, self);
    }
    CORTADO_REQUIRE(m > n && is_per_channel(other, self), NotSupported,
                    "found operands of %zu and %zu elements, expected equal shapes or, at rank 4, one value for each "
                    "element of dimension 1",
                    static_cast<size_t>(n), static_cast<size_t>(m));
    spans = {n, m / n, 0, n};
    return resize_like(out, ScalarType::Char, other);
}

/* Calls kernel(a, b, out, n) for every span. */
template <class Kernel>
Error for_each_span(const Tensor &self, const Tensor &other, Tensor &out, Kernel kernel)
{
    Spans spans;
    CORTADO_TRY(pair_up(self, other, out, spans));
    const int8_t *a = int8_data(self), *b = int8_data(other);
    int8_t *to = out.mutable_data_ptr<int8_t>();
    for (int32_t i = 0; i < spans.rounds; i++) {
        kernel(a, b, to, spans.span);
        a += spans.self_step;
        b += spans.other_step;
        to += spans.span;
    }
    return Error::Ok;
}

Error check_zero_points(int64_t self, int64_t other, int64_t out)
{
    CORTADO_TRY(check_zero_point(self, "self_zero_point"));
    CORTADO_TRY(check_zero_point(other, "other_zero_point"));
    return check_zero_point(out, "output_zero_point");
}

struct Scaled {
    int64_t zero_point, multiplier, shift;
};

Error add(const Tensor &self, const Scaled &a, const Tensor &other, const Scaled &b, const Scaled &o, int64_t low,
          int64_t high, Tensor &out)
{
    CORTADO_TRY(check_zero_points(a.zero_point, b.zero_point, o.zero_point));
    CORTADO_TRY(check_fixed_point(a.multiplier, a.shift));
    CORTADO_TRY(check_fixed_point(b.multiplier, b.shift));
    CORTADO_TRY(check_fixed_point(o.multiplier, o.shift));
    CORTADO_TRY(check_bounds(low, high));
    const cortado_add_t layer = {
        static_cast<int32_t>(a.multiplier), static_cast<int32_t>(b.multiplier), static_cast<int32_t>(o.multiplier),
        static_cast<int8_t>(a.zero_point),  static_cast<int8_t>(b.zero_point),  static_cast<int8_t>(o.zero_point),
        static_cast<int8_t>(a.shift),       static_cast<int8_t>(b.shift),       static_cast<int8_t>(o.shift),
        static_cast<int8_t>(low),           static_cast<int8_t>(high)};
    return for_each_span(self, other, out, [&](const int8_t *x, const int8_t *y, int8_t *to, int32_t n) {
        cortado_add_s8(&layer, x, y, to, n);
    });
}

Error mul(const Tensor &self, int64_t self_zero, const Tensor &other, int64_t other_zero, const Scaled &o, Tensor &out)
{
    CORTADO_TRY(check_zero_points(self_zero, other_zero, o.zero_point));
    CORTADO_TRY(check_fixed_point(o.multiplier, o.shift));
    const cortado_mul_t layer = {static_cast<int32_t>(self_zero),
                                 static_cast<int32_t>(other_zero),
                                 static_cast<int32_t>(o.zero_point),
                                 static_cast<int32_t>(o.multiplier),
                                 static_cast<int32_t>(o.shift),
                                 -128,
                                 127};
    return for_each_span(self, other, out, [&](const int8_t *x, const int8_t *y, int8_t *to, int32_t n) {
        cortado_mul_s8(&layer, x, y, to, n);
    });
}

Error div(const Tensor &self, int64_t self_zero, const Tensor &other, int64_t other_zero, int64_t out_zero,
          double scale, Tensor &out)
{
    CORTADO_TRY(check_zero_points(self_zero, other_zero, out_zero));
    CORTADO_REQUIRE(std::isfinite(static_cast<float>(scale)), InvalidArgument, "output_scale is not a finite float");
    CORTADO_TRY(pair_equal(self, other, out));
    const cortado_div_t layer = {static_cast<int32_t>(self_zero),
                                 static_cast<int32_t>(other_zero),
                                 static_cast<int32_t>(out_zero),
                                 static_cast<float>(scale),
                                 -128,
                                 127};
    cortado_div_s8(&layer, int8_data(self), int8_data(other), out.mutable_data_ptr<int8_t>(),
                   static_cast<int32_t>(self.numel()));
    return Error::Ok;
}

using Choose = void (*)(const int8_t *, const int8_t *, int8_t *, int32_t);

/* The runtime's minimum and maximum look at the last four dimensions only. */
Error choose(Choose kernel, const Tensor &self, const Tensor &other, Tensor &out)
{
    CORTADO_TRY(pair_equal(self, other, out));
    CORTADO_REQUIRE(self.dim() <= 4, NotSupported, "found rank %zu, expected at most 4",
                    static_cast<size_t>(self.dim()));
    kernel(int8_data(self), int8_data(other), out.mutable_data_ptr<int8_t>(), static_cast<int32_t>(self.numel()));
    return Error::Ok;
}

/* ---- One operand -------------------------------------------------------------------------------------------------- */

Error activation(const Tensor &input, const Tensor &lut, Tensor &out)
{
    CORTADO_TRY(check_tensor(input, ScalarType::Char, "input"));
    CORTADO_TRY(check_tensor(lut, ScalarType::Char, "lut"));
    CORTADO_REQUIRE(lut.numel() == 256, InvalidArgument, "lut: found %zu entries, expected 256",
                    static_cast<size_t>(lut.numel()));
    CORTADO_TRY(resize_like(out, ScalarType::Char, input));
    cortado_table_s8(int8_data(lut), int8_data(input), out.mutable_data_ptr<int8_t>(),
                     static_cast<int32_t>(input.numel()));
    return Error::Ok;
}

/* The sum of the exponentials has 12 integer bits. */
constexpr int32_t max_softmax = 4095;

Error softmax(const Tensor &input, int64_t dim, int64_t input_zero, int64_t output_zero, const cortado_softmax_t &layer,
              Tensor &out)
{
    CORTADO_TRY(check_plain(input, ScalarType::Char, "input"));
    CORTADO_TRY(check_zero_point(input_zero, "input_zero_point"));
    CORTADO_REQUIRE(output_zero == -128, NotSupported, "softmax: expected the output zero point -128");
    CORTADO_REQUIRE(input.dim() > 0 && (dim == -1 || dim == input.dim() - 1), NotSupported,
                    "softmax: expected the last dimension");
    CORTADO_TRY(resize_like(out, ScalarType::Char, input));
    const int32_t n = static_cast<int32_t>(input.size(input.dim() - 1));
    CORTADO_REQUIRE(n <= max_softmax, NotSupported, "softmax: at most 4095 elements");
    if (n > 0) {
        cortado_softmax_s8(&layer, int8_data(input), out.mutable_data_ptr<int8_t>(),
                           static_cast<int32_t>(input.numel()) / n, n);
    }
    return Error::Ok;
}

Error read_softmax(int64_t multiplier, int64_t shift, int64_t diff_min, cortado_softmax_t &layer)
{
    CORTADO_TRY(check_fixed_point(multiplier, shift));
    CORTADO_REQUIRE(multiplier >= 0 && shift >= 0, InvalidArgument, "softmax: expected a scale of 2^-26 or more");
    CORTADO_REQUIRE(between(diff_min, INT32_MIN, 0), InvalidArgument, "diff_min: expected a negative int32");
    /* The largest difference that counts, between int8s, is scaled to 5 integer bits. */
    const int64_t largest = diff_min < -255 ? 255 : -diff_min;
    CORTADO_REQUIRE(largest << shift <= int64_t(1) << 31, InvalidArgument, "diff_min: too large for the input's scale");
    layer = {static_cast<int32_t>(multiplier), static_cast<int32_t>(shift), static_cast<int32_t>(diff_min), nullptr};
    return Error::Ok;
}

/* ---- Float border ------------------------------------------------------------------------------------------------- */

struct Border {
    double scale;
    int64_t zero_point, quant_min, quant_max;
    ScalarType dtype;
};

Error check_border(const Border &border)
{
    CORTADO_REQUIRE(std::isnormal(static_cast<float>(border.scale)) && border.scale > 0, InvalidArgument,
                    "scale: expected a positive float");
    CORTADO_TRY(check_zero_point(border.zero_point, "zero_point"));
    CORTADO_TRY(check_bounds(border.quant_min, border.quant_max));
    CORTADO_REQUIRE(border.dtype == ScalarType::Char, NotSupported, "dtype: expected int8");
    return Error::Ok;
}

/* Elements that ExecuTorch's operator for MVE quantizes together; those behind the last full block it takes one by one,
 * as other cores do. */
constexpr int32_t mve_block = 16;

/* One value of such a block: x / scale is rounded once, not to a float first, and what does not fit 16 bits wraps. */
int8_t quantize_as_mve(float x, float inverse, int32_t zero_point)
{
    constexpr float no_fraction = 12582912.0f; /* 1.5 * 2^23: a sum with it is a whole number */
    constexpr uint32_t its_bits = 0x4B400000;
    const float sum = std::fma(x, inverse, no_fraction);
    uint32_t bits;
    std::memcpy(&bits, &sum, sizeof bits);
    const uint32_t code = bits - its_bits + static_cast<uint32_t>(zero_point);
    const int32_t low = static_cast<int16_t>(static_cast<uint16_t>(code));
    return static_cast<int8_t>(low < -128 ? -128 : low > 127 ? 127 : low);
}

void quantize_as_mve_blocks(const float *in, int8_t *out, int32_t n, float scale, int32_t zero_point)
{
    const float inverse = 1.0f / scale;
    const int32_t blocks = n / mve_block * mve_block;
    for (int32_t i = 0; i < blocks; i++) {
        out[i] = quantize_as_mve(in[i], inverse, zero_point);
    }
    cortado_quantize_f32_s8(in + blocks, out + blocks, n - blocks, scale, zero_point);
}

Error quantize(const Tensor &input, const Border &border, Tensor &out)
{
    CORTADO_TRY(check_border(border));
    CORTADO_TRY(check_tensor(input, ScalarType::Float, "input"));
    CORTADO_TRY(resize_like(out, ScalarType::Char, input));
    const int32_t n = static_cast<int32_t>(input.numel());
    int8_t *const to = out.mutable_data_ptr<int8_t>();
    const auto kernel = quantizes_as_mve() ? quantize_as_mve_blocks : cortado_quantize_f32_s8;
    kernel(input.const_data_ptr<float>(), to, n, static_cast<float>(border.scale),
           static_cast<int32_t>(border.zero_point));
    if (border.quant_min > -128 || border.quant_max < 127) {
        const int8_t low = static_cast<int8_t>(border.quant_min), high = static_cast<int8_t>(border.quant_max);
        for (int32_t i = 0; i < n; i++) {
            to[i] = to[i] < low ? low : to[i] > high ? high : to[i];
        }
    }
    return Error::Ok;
}

Error dequantize(const Tensor &input, const Border &border, Tensor &out)
{
    CORTADO_TRY(check_border(border));
    CORTADO_TRY(check_tensor(input, ScalarType::Char, "input"));
    CORTADO_TRY(resize_like(out, ScalarType::Float, input));
    cortado_dequantize_s8_f32(int8_data(input), out.mutable_data_ptr<float>(), static_cast<int32_t>(input.numel()),
                              static_cast<float>(border.scale), static_cast<int32_t>(border.zero_point));
    return Error::Ok;
}

} // namespace

} // namespace cortado

/* ---- The operators ------------------------------------------------------------------------------------------------ */

namespace cortex_m {
namespace native {

using namespace cortado;

Tensor &quantize_per_tensor_out(KernelRuntimeContext &context, const Tensor &input, double scale, int64_t zero_point,
                                int64_t quant_min, int64_t quant_max, ScalarType dtype, Tensor &out)
{
    return finish(context, quantize(input, {scale, zero_point, quant_min, quant_max, dtype}, out), out);
}

Tensor &dequantize_per_tensor_out(KernelRuntimeContext &context, const Tensor &input, double scale, int64_t zero_point,
                                  int64_t quant_min, int64_t quant_max, ScalarType dtype, Tensor &out)
{
    return finish(context, dequantize(input, {scale, zero_point, quant_min, quant_max, dtype}, out), out);
}

Tensor &quantized_add_out(KernelRuntimeContext &context, const Tensor &self, int64_t self_zero_point,
                          int64_t self_multiplier, int64_t self_shift, const Tensor &other, int64_t other_zero_point,
                          int64_t other_multiplier, int64_t other_shift, int64_t output_zero_point,
                          int64_t output_multiplier, int64_t output_shift, int64_t activation_min,
                          int64_t activation_max, Tensor &out)
{
    const Scaled a = {self_zero_point, self_multiplier, self_shift};
    const Scaled b = {other_zero_point, other_multiplier, other_shift};
    const Scaled o = {output_zero_point, output_multiplier, output_shift};
    return finish(context, add(self, a, other, b, o, activation_min, activation_max, out), out);
}

Tensor &quantized_mul_out(KernelRuntimeContext &context, const Tensor &self, int64_t self_zero_point,
                          const Tensor &other, int64_t other_zero_point, int64_t output_zero_point,
                          int64_t output_multiplier, int64_t output_shift, Tensor &out)
{
    const Scaled o = {output_zero_point, output_multiplier, output_shift};
    return finish(context, mul(self, self_zero_point, other, other_zero_point, o, out), out);
}

Tensor &quantized_div_out(KernelRuntimeContext &context, const Tensor &self, int64_t self_zero_point,
                          const Tensor &other, int64_t other_zero_point, int64_t output_zero_point,
                          double output_scale, Tensor &out)
{
    return finish(context, div(self, self_zero_point, other, other_zero_point, output_zero_point, output_scale, out),
                  out);
}

Tensor &minimum_out(KernelRuntimeContext &context, const Tensor &self, const Tensor &other, Tensor &out)
{
    return finish(context, choose(cortado_minimum_s8, self, other, out), out);
}

Tensor &maximum_out(KernelRuntimeContext &context, const Tensor &self, const Tensor &other, Tensor &out)
{
    return finish(context, choose(cortado_maximum_s8, self, other, out), out);
}

Tensor &quantized_activation_out(KernelRuntimeContext &context, const Tensor &input, const Tensor &lut, Tensor &out)
{
    return finish(context, activation(input, lut, out), out);
}

Tensor &softmax_out(KernelRuntimeContext &context, const Tensor &input, int64_t dim, int64_t input_zero_point,
                    int64_t output_zero_point, int64_t input_multiplier, int64_t input_shift, int64_t diff_min,
                    Tensor &out)
{
    cortado_softmax_t layer = {};
    Error error = read_softmax(input_multiplier, input_shift, diff_min, layer);
    if (error == Error::Ok) {
        error = softmax(input, dim, input_zero_point, output_zero_point, layer, out);
    }
    return finish(context, error, out);
}

} // namespace native
} // namespace cortex_m
