"""The arguments of the operators that a .pte calls, in their order."""

# What each cortex_m operator's arguments are called, in order. A kernel call lists them, then `out`, then the value
# it returns (`out` again). The names say which constants are weights and which tensors are scratch.
_CONV = "input weight bias stride padding dilation"
_REQUANT = "input_offset output_offset requantize_multipliers requantize_shifts activation_min activation_max"
_CONV2D = f"{_CONV} {_REQUANT} scratch"
_DEPTHWISE = f"{_CONV} depth_multiplier {_REQUANT} scratch"
_TRANSPOSED = f"input weight bias stride padding output_padding dilation {_REQUANT} scratch output_scratch"
_AVG_POOL = "input kernel_size stride padding ceil_mode zero_point multiplier shift scratch"


_MAX_POOL = (
    "input kernel_size stride padding dilation ceil_mode input_zero_point output_zero_point"
    " activation_min activation_max"
)


_QUANTIZE = "input scale zero_point quant_min quant_max dtype"


OPERATOR_ARGUMENTS: dict[str, tuple[str, ...]] = {
    f"cortex_m::{name}.out": tuple(arguments.split())
    for name, arguments in {
        "quantize_per_tensor": _QUANTIZE,
        "dequantize_per_tensor": _QUANTIZE,
        "quantized_add": "self self_zero_point self_multiplier self_shift other other_zero_point other_multiplier"
        " other_shift output_zero_point output_multiplier output_shift activation_min activation_max",
        "quantized_mul": "self self_zero_point other other_zero_point output_zero_point output_multiplier output_shift",
        "quantized_div": "self self_zero_point other other_zero_point output_zero_point output_scale",
        "quantized_activation": "input lut",
        "minimum": "self other",
        "maximum": "self other",
        "quantized_linear": "input weights bias kernel_sum input_offset filter_offset output_offset"
        " requantize_multipliers requantize_shifts activation_max activation_min",
        "softmax": "input dim input_zero_point output_zero_point input_multiplier input_shift diff_min",
        "transpose": "input perm",
        "pad": "input pre_pad post_pad pad_value",
        "quantized_conv2d": _CONV2D,
        "quantized_conv2d_nhwc": _CONV2D,
        "quantized_depthwise_conv2d": _DEPTHWISE,
        "quantized_depthwise_conv2d_nhwc": _DEPTHWISE,
        "quantized_transpose_conv2d": _TRANSPOSED,
        "quantized_transpose_conv2d_nhwc": _TRANSPOSED,
        "quantized_avg_pool2d": _AVG_POOL,
        "quantized_avg_pool2d_nhwc": _AVG_POOL,
        "quantized_max_pool2d": _MAX_POOL,
        "quantized_max_pool2d_nhwc": _MAX_POOL,
        "quantized_batch_matmul": "lhs lhs_zero_point rhs_transposed rhs_zero_point output_zero_point"
        " output_multiplier output_shift scratch",
    }.items()
}
