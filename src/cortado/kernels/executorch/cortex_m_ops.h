/* SPDX-License-Identifier: Apache-2.0
 *
 * Written by `python -m cortado.run.executorch_host` from Cortado's operator registry; do not edit.
 */
#ifndef CORTADO_CORTEX_M_OPS_H
#define CORTADO_CORTEX_M_OPS_H

#include <executorch/runtime/kernel/kernel_includes.h>

#include <cstdint>
#include <optional>

namespace cortex_m {
namespace native {

using executorch::aten::ArrayRef;
using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::KernelRuntimeContext;

Tensor &dequantize_per_tensor_out(KernelRuntimeContext &context, const Tensor &input, double scale, int64_t zero_point,
                                  int64_t quant_min, int64_t quant_max, ScalarType dtype, Tensor &out);
Tensor &maximum_out(KernelRuntimeContext &context, const Tensor &self, const Tensor &other, Tensor &out);
Tensor &minimum_out(KernelRuntimeContext &context, const Tensor &self, const Tensor &other, Tensor &out);
Tensor &pad_out(KernelRuntimeContext &context, const Tensor &input, ArrayRef<int64_t> pre_pad,
                ArrayRef<int64_t> post_pad, int64_t pad_value, Tensor &out);
Tensor &quantize_per_tensor_out(KernelRuntimeContext &context, const Tensor &input, double scale, int64_t zero_point,
                                int64_t quant_min, int64_t quant_max, ScalarType dtype, Tensor &out);
Tensor &quantized_activation_out(KernelRuntimeContext &context, const Tensor &input, const Tensor &lut, Tensor &out);
Tensor &quantized_add_out(KernelRuntimeContext &context, const Tensor &self, int64_t self_zero_point,
                          int64_t self_multiplier, int64_t self_shift, const Tensor &other, int64_t other_zero_point,
                          int64_t other_multiplier, int64_t other_shift, int64_t output_zero_point,
                          int64_t output_multiplier, int64_t output_shift, int64_t activation_min,
                          int64_t activation_max, Tensor &out);
Tensor &quantized_avg_pool2d_out(KernelRuntimeContext &context, const Tensor &input, ArrayRef<int64_t> kernel_size,
                                 ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, bool ceil_mode,
                                 int64_t zero_point, int64_t multiplier, int64_t shift, const Tensor &scratch,
                                 Tensor &out);
Tensor &quantized_avg_pool2d_nhwc_out(KernelRuntimeContext &context, const Tensor &input, ArrayRef<int64_t> kernel_size,
                                      ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, bool ceil_mode,
                                      int64_t zero_point, int64_t multiplier, int64_t shift, const Tensor &scratch,
                                      Tensor &out);
Tensor &quantized_batch_matmul_out(KernelRuntimeContext &context, const Tensor &lhs, int64_t lhs_zero_point,
                                   const Tensor &rhs_transposed, int64_t rhs_zero_point, int64_t output_zero_point,
                                   int64_t output_multiplier, int64_t output_shift, const Tensor &scratch, Tensor &out);
Tensor &quantized_conv2d_out(KernelRuntimeContext &context, const Tensor &input, const Tensor &weight,
                             const std::optional<Tensor> &bias, ArrayRef<int64_t> stride, ArrayRef<int64_t> padding,
                             ArrayRef<int64_t> dilation, int64_t input_offset, int64_t output_offset,
                             const Tensor &requantize_multipliers, const Tensor &requantize_shifts,
                             int64_t activation_min, int64_t activation_max, const Tensor &scratch, Tensor &out);
Tensor &quantized_conv2d_nhwc_out(KernelRuntimeContext &context, const Tensor &input, const Tensor &weight,
                                  const std::optional<Tensor> &bias, ArrayRef<int64_t> stride,
                                  ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation, int64_t input_offset,
                                  int64_t output_offset, const Tensor &requantize_multipliers,
                                  const Tensor &requantize_shifts, int64_t activation_min, int64_t activation_max,
                                  const Tensor &scratch, Tensor &out);
Tensor &quantized_depthwise_conv2d_out(KernelRuntimeContext &context, const Tensor &input, const Tensor &weight,
                                       const std::optional<Tensor> &bias, ArrayRef<int64_t> stride,
                                       ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation, int64_t depth_multiplier,
                                       int64_t input_offset, int64_t output_offset,
                                       const Tensor &requantize_multipliers, const Tensor &requantize_shifts,
                                       int64_t activation_min, int64_t activation_max, const Tensor &scratch,
                                       Tensor &out);
Tensor &quantized_depthwise_conv2d_nhwc_out(KernelRuntimeContext &context, const Tensor &input, const Tensor &weight,
                                            const std::optional<Tensor> &bias, ArrayRef<int64_t> stride,
                                            ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation,
                                            int64_t depth_multiplier, int64_t input_offset, int64_t output_offset,
                                            const Tensor &requantize_multipliers, const Tensor &requantize_shifts,
                                            int64_t activation_min, int64_t activation_max, const Tensor &scratch,
                                            Tensor &out);
Tensor &quantized_div_out(KernelRuntimeContext &context, const Tensor &self, int64_t self_zero_point,
                          const Tensor &other, int64_t other_zero_point, int64_t output_zero_point, double output_scale,
                          Tensor &out);
Tensor &quantized_linear_out(KernelRuntimeContext &context, const Tensor &input, const Tensor &weights,
                             const std::optional<Tensor> &bias, const std::optional<Tensor> &kernel_sum,
                             int64_t input_offset, int64_t filter_offset, int64_t output_offset,
                             ArrayRef<int64_t> requantize_multipliers, ArrayRef<int64_t> requantize_shifts,
                             int64_t activation_max, int64_t activation_min, Tensor &out);
Tensor &quantized_max_pool2d_out(KernelRuntimeContext &context, const Tensor &input, ArrayRef<int64_t> kernel_size,
                                 ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation,
                                 bool ceil_mode, int64_t input_zero_point, int64_t output_zero_point,
                                 int64_t activation_min, int64_t activation_max, Tensor &out);
Tensor &quantized_max_pool2d_nhwc_out(KernelRuntimeContext &context, const Tensor &input, ArrayRef<int64_t> kernel_size,
                                      ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation,
                                      bool ceil_mode, int64_t input_zero_point, int64_t output_zero_point,
                                      int64_t activation_min, int64_t activation_max, Tensor &out);
Tensor &quantized_mul_out(KernelRuntimeContext &context, const Tensor &self, int64_t self_zero_point,
                          const Tensor &other, int64_t other_zero_point, int64_t output_zero_point,
                          int64_t output_multiplier, int64_t output_shift, Tensor &out);
Tensor &quantized_transpose_conv2d_out(KernelRuntimeContext &context, const Tensor &input, const Tensor &weight,
                                       const std::optional<Tensor> &bias, ArrayRef<int64_t> stride,
                                       ArrayRef<int64_t> padding, ArrayRef<int64_t> output_padding,
                                       ArrayRef<int64_t> dilation, int64_t input_offset, int64_t output_offset,
                                       const Tensor &requantize_multipliers, const Tensor &requantize_shifts,
                                       int64_t activation_min, int64_t activation_max, const Tensor &scratch,
                                       const Tensor &output_scratch, Tensor &out);
Tensor &quantized_transpose_conv2d_nhwc_out(KernelRuntimeContext &context, const Tensor &input, const Tensor &weight,
                                            const std::optional<Tensor> &bias, ArrayRef<int64_t> stride,
                                            ArrayRef<int64_t> padding, ArrayRef<int64_t> output_padding,
                                            ArrayRef<int64_t> dilation, int64_t input_offset, int64_t output_offset,
                                            const Tensor &requantize_multipliers, const Tensor &requantize_shifts,
                                            int64_t activation_min, int64_t activation_max, const Tensor &scratch,
                                            const Tensor &output_scratch, Tensor &out);
Tensor &softmax_out(KernelRuntimeContext &context, const Tensor &input, int64_t dim, int64_t input_zero_point,
                    int64_t output_zero_point, int64_t input_multiplier, int64_t input_shift, int64_t diff_min,
                    Tensor &out);
Tensor &transpose_out(KernelRuntimeContext &context, const Tensor &input, ArrayRef<int64_t> perm, Tensor &out);

} // namespace native
} // namespace cortex_m

#define CORTADO_CORTEX_M_OPS(X) \
    X(dequantize_per_tensor) \
    X(maximum) \
    X(minimum) \
    X(pad) \
    X(quantize_per_tensor) \
    X(quantized_activation) \
    X(quantized_add) \
    X(quantized_avg_pool2d) \
    X(quantized_avg_pool2d_nhwc) \
    X(quantized_batch_matmul) \
    X(quantized_conv2d) \
    X(quantized_conv2d_nhwc) \
    X(quantized_depthwise_conv2d) \
    X(quantized_depthwise_conv2d_nhwc) \
    X(quantized_div) \
    X(quantized_linear) \
    X(quantized_max_pool2d) \
    X(quantized_max_pool2d_nhwc) \
    X(quantized_mul) \
    X(quantized_transpose_conv2d) \
    X(quantized_transpose_conv2d_nhwc) \
    X(softmax) \
    X(transpose)

/* Registers them; for builds with CORTADO_ET_MANUAL_REGISTRATION. Call it once. Returns 0. */
extern "C" int cortado_register_cortex_m_ops(void);

#endif /* CORTADO_CORTEX_M_OPS_H */
