/* SPDX-License-Identifier: Apache-2.0
 *
 * Written by `python -m cortado.executorch_host` from Cortado's operator registry; do not edit.
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
Tensor &quantize_per_tensor_out(KernelRuntimeContext &context, const Tensor &input, double scale, int64_t zero_point,
                                int64_t quant_min, int64_t quant_max, ScalarType dtype, Tensor &out);
Tensor &quantized_avg_pool2d_out(KernelRuntimeContext &context, const Tensor &input, ArrayRef<int64_t> kernel_size,
                                 ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, bool ceil_mode,
                                 int64_t zero_point, int64_t multiplier, int64_t shift, const Tensor &scratch,
                                 Tensor &out);
Tensor &quantized_avg_pool2d_nhwc_out(KernelRuntimeContext &context, const Tensor &input, ArrayRef<int64_t> kernel_size,
                                      ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, bool ceil_mode,
                                      int64_t zero_point, int64_t multiplier, int64_t shift, const Tensor &scratch,
                                      Tensor &out);
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
Tensor &transpose_out(KernelRuntimeContext &context, const Tensor &input, ArrayRef<int64_t> perm, Tensor &out);

} // namespace native
} // namespace cortex_m

#define CORTADO_CORTEX_M_OPS(X) \
    X(dequantize_per_tensor) \
    X(quantize_per_tensor) \
    X(quantized_avg_pool2d) \
    X(quantized_avg_pool2d_nhwc) \
    X(quantized_conv2d) \
    X(quantized_conv2d_nhwc) \
    X(quantized_depthwise_conv2d) \
    X(quantized_depthwise_conv2d_nhwc) \
    X(transpose)

/* Registers them; for builds with CORTADO_ET_MANUAL_REGISTRATION. Call it once. Returns 0. */
extern "C" int cortado_register_cortex_m_ops(void);

#endif /* CORTADO_CORTEX_M_OPS_H */
