/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear layers with one scale per tensor, and products of two activations.
 */
#include "arguments.h"
#include "arm_limits.h"
#include "cortado.h"
#include "cortex_m_ops.h"

#include <algorithm>
#include <cinttypes>

namespace cortado {

namespace {

/* ---- linear ------------------------------------------------------------------------------------------------------- */

/* Output channels that are computed together, so that their multipliers, shifts and biases fit on the stack. */
constexpr int32_t block = 32;

struct Linear {
    int32_t pixels, in_c, out_c;
    int32_t filter_offset;
    const int32_t *bias; /* added as it is, or null */
    cortado_conv1x1_t layer;
};

int32_t sum(const int8_t *x, int32_t n)
{
    int32_t total = 0;
    for (int32_t i = 0; i < n; i++) {
        total += x[i];
    }
    return total;
}

/* `layer` has `block` multipliers and shifts; `offset` is what a weight offset adds to every output of one pixel. */
void run_block(const Linear &linear, cortado_conv1x1_t layer, const int8_t *in, int32_t first, int32_t count,
               int32_t offset, int8_t *out)
{
    int32_t bias[block];
    for (int32_t i = 0; i < count; i++) {
        bias[i] = offset + (linear.bias != nullptr ? linear.bias[first + i] : 0);
    }
    layer.out_c = count;
    layer.weights += static_cast<size_t>(first) * static_cast<size_t>(linear.in_c);
    layer.bias = bias;
    cortado_conv1x1_s8(&layer, in, out, 1, nullptr);
}

void run_linear(const Linear &linear, const int8_t *in, int8_t *out, int32_t multiplier, int32_t shift)
{
    int32_t multipliers[block], shifts[block];
    std::fill_n(multipliers, block, multiplier);
    std::fill_n(shifts, block, shift);
    cortado_conv1x1_t layer = linear.layer;
    layer.multiplier = multipliers;
    layer.shift = shifts;
    for (int32_t pixel = 0; pixel < linear.pixels; pixel++) {
        int32_t offset = 0;
        if (linear.filter_offset != 0) {
            offset = linear.filter_offset * (sum(in, linear.in_c) + linear.layer.in_offset * linear.in_c);
        }
        for (int32_t first = 0; first < linear.out_c; first += block) {
            run_block(linear, layer, in, first, std::min(block, linear.out_c - first), offset, out + first);
        }
        in += linear.in_c;
        out += linear.out_c;
    }
}

Error read_linear(const Tensor &input, const Tensor &weights, Linear &linear, Tensor &out)
{
    CORTADO_TRY(check_plain(input, ScalarType::Char, "input"));
    CORTADO_TRY(check_plain(weights, ScalarType::Char, "weights"));
    CORTADO_REQUIRE(input.dim() > 0 && weights.dim() == 2 && weights.numel() > 0, InvalidArgument,
                    "expected an input of rank 1 or more and weights of rank 2");
    linear.in_c = static_cast<int32_t>(weights.size(1));
    linear.out_c = static_cast<int32_t>(weights.size(0));
    CORTADO_REQUIRE(input.size(input.dim() - 1) == linear.in_c, InvalidArgument,
                    "weights: expected as many columns as the input's last dimension has elements");
    linear.pixels = static_cast<int32_t>(input.numel() / linear.in_c);
    SizesType sizes[max_rank];
    std::copy(input.sizes().begin(), input.sizes().end(), sizes);
    sizes[input.dim() - 1] = linear.out_c;
    CORTADO_TRY(resize(out, ScalarType::Char, ArrayRef<SizesType>(sizes, static_cast<size_t>(input.dim()))));
    return check_plain(out, ScalarType::Char, "the output");
}

/* Do the readers of the bias and of the sums see the same layer? */
Error check_sums(const Linear &linear, const int8_t *weights, const int32_t *sums, int64_t input_offset)
{
    for (int32_t i = 0; i < linear.out_c; i++) {
        const int64_t start = linear.bias == nullptr ? 0 : linear.bias[i];
        const int64_t wanted = start + input_offset * sum(weights + int64_t(i) * linear.in_c, linear.in_c);
        CORTADO_REQUIRE(sums[i] == wanted, InvalidArgument,
                        "kernel_sum: found %" PRId32 " for output %" PRId32 ", expected %" PRId64
                        ": cores with MVE read it, others read the bias",
                        sums[i], i, wanted);
    }
    return Error::Ok;
}

/* CMSIS-NN's DSP and scalar kernels read the bias, its MVE kernel reads kernel_sum = bias + input_offset * (sum of the
 * weights) instead. So does this; where the target stands for both kinds of core, the two have to mean the same. */
Error read_sums(const std::optional<Tensor> &bias, const std::optional<Tensor> &kernel_sum, const int8_t *weights,
                int64_t input_offset, Linear &linear)
{
    const int32_t *sums = nullptr;
    CORTADO_TRY(read_bias(bias, linear.out_c, "bias", linear.bias));
    CORTADO_TRY(read_bias(kernel_sum, linear.out_c, "kernel_sum", sums));
    linear.layer.in_offset = static_cast<int16_t>(input_offset);
    if (!may_use_mve()) {
        return Error::Ok;
    }
    CORTADO_REQUIRE(sums != nullptr && linear.filter_offset == 0, InvalidArgument,
                    "a linear layer on a core with MVE needs kernel_sum and a filter_offset of 0");
    if (may_lack_mve()) {
        return check_sums(linear, weights, sums, input_offset);
    }
    linear.layer.in_offset = 0;
    linear.bias = sums;
    return Error::Ok;
}

struct Offsets {
    int64_t input, filter, output, activation_min, activation_max;
};

Error linear(const Tensor &input, const Tensor &weights, const std::optional<Tensor> &bias,
             const std::optional<Tensor> &kernel_sum, const Offsets &offsets, ArrayRef<int64_t> multipliers,
             ArrayRef<int64_t> shifts, Tensor &out)
{
    Linear linear = {};
    CORTADO_TRY(check_negated_zero_point(offsets.input, "input_offset"));
    CORTADO_TRY(check_negated_zero_point(offsets.filter, "filter_offset"));
    CORTADO_TRY(check_zero_point(offsets.output, "output_offset"));
    CORTADO_TRY(check_bounds(offsets.activation_min, offsets.activation_max));
    CORTADO_REQUIRE(multipliers.size() > 0 && shifts.size() > 0, InvalidArgument, "expected a multiplier and a shift");
    CORTADO_TRY(check_fixed_point(multipliers[0], shifts[0]));
    CORTADO_TRY(read_linear(input, weights, linear, out));
    linear.filter_offset = static_cast<int32_t>(offsets.filter);
    CORTADO_TRY(read_sums(bias, kernel_sum, int8_data(weights), offsets.input, linear));
    linear.layer.in_c = linear.in_c;
    linear.layer.out_offset = static_cast<int16_t>(offsets.output);
    linear.layer.act_min = static_cast<int16_t>(offsets.activation_min);
    linear.layer.act_max = static_cast<int16_t>(offsets.activation_max);
    linear.layer.weights = int8_data(weights);
    run_linear(linear, int8_data(input), out.mutable_data_ptr<int8_t>(), static_cast<int32_t>(multipliers[0]),
               static_cast<int32_t>(shifts[0]));
    return Error::Ok;
}

/* ---- batch_matmul ------------------------------------------------------------------------------------------------- */

Error batch_matmul(const Tensor &lhs, int64_t lhs_offset, const Tensor &rhs, int64_t rhs_offset, int64_t out_zero,
                   int64_t multiplier, int64_t shift, const Tensor &scratch, Tensor &out)
{
    CORTADO_TRY(check_plain(lhs, ScalarType::Char, "lhs"));
    CORTADO_TRY(check_plain(rhs, ScalarType::Char, "rhs_transposed"));
    CORTADO_REQUIRE(lhs.dim() == 3 && rhs.dim() == 3 && lhs.size(0) == rhs.size(0) && lhs.size(2) == rhs.size(2),
                    InvalidArgument, "expected [batch, rows, depth] and [batch, columns, depth]");
    CORTADO_TRY(check_negated_zero_point(lhs_offset, "lhs_zero_point"));
    CORTADO_TRY(check_negated_zero_point(rhs_offset, "rhs_zero_point"));
    CORTADO_TRY(check_zero_point(out_zero, "output_zero_point"));
    CORTADO_TRY(check_fixed_point(multiplier, shift));
    CORTADO_TRY(check_scratch(scratch, {0, 0, 4 * int64_t(rhs.size(1))}, "scratch"));
    const SizesType sizes[] = {static_cast<SizesType>(lhs.size(0)), static_cast<SizesType>(lhs.size(1)),
                               static_cast<SizesType>(rhs.size(1))};
    CORTADO_TRY(resize(out, ScalarType::Char, ArrayRef<SizesType>(sizes, 3)));
    CORTADO_TRY(check_plain(out, ScalarType::Char, "the output"));
    const cortado_batch_matmul_t layer = {static_cast<int32_t>(sizes[0]),
                                          static_cast<int32_t>(sizes[1]),
                                          static_cast<int32_t>(sizes[2]),
                                          static_cast<int32_t>(lhs.size(2)),
                                          static_cast<int32_t>(-lhs_offset),
                                          static_cast<int32_t>(-rhs_offset),
                                          static_cast<int32_t>(out_zero),
                                          static_cast<int32_t>(multiplier),
                                          static_cast<int32_t>(shift),
                                          -128,
                                          127};
    cortado_batch_matmul_s8(&layer, int8_data(lhs), int8_data(rhs), out.mutable_data_ptr<int8_t>(), nullptr);
    return Error::Ok;
}

} // namespace

} // namespace cortado

/* ---- The operators ------------------------------------------------------------------------------------------------ */

namespace cortex_m {
namespace native {

using namespace cortado;

Tensor &quantized_linear_out(KernelRuntimeContext &context, const Tensor &input, const Tensor &weights,
                             const std::optional<Tensor> &bias, const std::optional<Tensor> &kernel_sum,
                             int64_t input_offset, int64_t filter_offset, int64_t output_offset,
                             ArrayRef<int64_t> requantize_multipliers, ArrayRef<int64_t> requantize_shifts,
                             int64_t activation_max, int64_t activation_min, Tensor &out)
{
    const Offsets offsets = {input_offset, filter_offset, output_offset, activation_min, activation_max};
    return finish(context,
                  linear(input, weights, bias, kernel_sum, offsets, requantize_multipliers, requantize_shifts, out), out);
}

Tensor &quantized_batch_matmul_out(KernelRuntimeContext &context, const Tensor &lhs, int64_t lhs_zero_point,
                                   const Tensor &rhs_transposed, int64_t rhs_zero_point, int64_t output_zero_point,
                                   int64_t output_multiplier, int64_t output_shift, const Tensor &scratch, Tensor &out)
{
    return finish(context,
                  batch_matmul(lhs, lhs_zero_point, rhs_transposed, rhs_zero_point, output_zero_point,
                               output_multiplier, output_shift, scratch, out),
                  out);
}

} // namespace native
} // namespace cortex_m
