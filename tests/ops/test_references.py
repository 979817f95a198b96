"""The exact references of convolutions, pools and matrix products against the golden layers, bit for bit."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from cortado.base.numerics import Fixed
from cortado.ops.conv.batch_matmul import BATCH_MATMUL
from cortado.ops.conv.conv2d import CONV2D
from cortado.ops.conv.depthwise_conv2d import DEPTHWISE
from cortado.ops.conv.linear import QUANTIZED_LINEAR
from cortado.ops.pool.avg_pool2d import AVG_POOL2D
from cortado.ops.pool.max_pool2d import MAX_POOL2D
from helpers.recorded import Params, Tensors, recorded_tensors

Run = Callable[[Params, Tensors], torch.Tensor]

LAYERS = {
    "conv2d": 60,
    "depthwise_conv2d": 60,
    "linear": 50,
    "avg_pool2d": 40,
    "max_pool2d": 30,
    "batch_matmul": 30,
}


def requantization(params: Params, arrays: Tensors, channels: int) -> Params:
    return {
        "bias": arrays.get("bias"),
        "input_offset": -params["input_zero_point"],
        "output_offset": params["output_zero_point"],
        "requantize_multipliers": arrays["multiplier"].expand(channels),
        "requantize_shifts": arrays["shift"].expand(channels),
        "activation_min": params["activation_min"],
        "activation_max": params["activation_max"],
    }


def window(params: Params) -> Params:
    return {name: params[name] for name in ("stride", "padding", "dilation")}


def conv2d(params: Params, arrays: Tensors) -> torch.Tensor:
    weight = arrays["weight_ohwi"]
    factors = requantization(params, arrays, len(weight))
    return CONV2D.reference(input=arrays["input"], weight=weight, **window(params), **factors)


def grouped_conv2d(params: Params, arrays: Tensors) -> torch.Tensor:
    """A depthwise layer as the grouped convolution that several images are lowered to."""
    weight = arrays["weight_1hwo"].permute(3, 1, 2, 0)
    factors = requantization(params, arrays, len(weight))
    return CONV2D.reference(input=arrays["input"], weight=weight, **window(params), **factors)


def depthwise(params: Params, arrays: Tensors) -> torch.Tensor:
    weight, multiplier = arrays["weight_1hwo"], params["depth_multiplier"]
    factors = requantization(params, arrays, weight.shape[3])
    return DEPTHWISE.reference(
        input=arrays["input"], weight=weight, depth_multiplier=multiplier, **window(params), **factors
    )


def linear_as_conv2d(params: Params, arrays: Tensors) -> torch.Tensor:
    x, weight = arrays["input"], arrays["weight"]
    result = CONV2D.reference(
        input=x.reshape(1, 1, *x.shape),
        weight=weight[:, None, None, :],
        stride=[1, 1],
        padding=[0, 0],
        dilation=[1, 1],
        **requantization(params, arrays, len(weight)),
    )
    return result.reshape(len(x), -1)


def linear(params: Params, arrays: Tensors, with_bias: bool, with_sum: bool) -> torch.Tensor:
    weights, bias, offset = arrays["weight"], arrays.get("bias"), -params["input_zero_point"]
    sums = weights.sum(1, dtype=torch.int32) * offset + (0 if bias is None else bias)
    return QUANTIZED_LINEAR.reference(
        input=arrays["input"],
        weights=weights,
        bias=bias if with_bias else None,
        kernel_sum=sums if with_sum else None,
        input_offset=offset,
        filter_offset=0,
        output_offset=params["output_zero_point"],
        requantize_multipliers=arrays["multiplier"].tolist(),
        requantize_shifts=arrays["shift"].tolist(),
        activation_max=params["activation_max"],
        activation_min=params["activation_min"],
    )


def avg_pool2d(params: Params, arrays: Tensors) -> torch.Tensor:
    unit = Fixed.of(1.0)
    result = AVG_POOL2D.reference(
        input=arrays["input"],
        kernel_size=params["kernel"],
        stride=params["stride"],
        padding=params["padding"],
        ceil_mode=False,
        zero_point=0,
        multiplier=unit.multiplier,
        shift=unit.shift,
    )
    return result.clamp(params["activation_min"], params["activation_max"])


def max_pool2d(params: Params, arrays: Tensors) -> torch.Tensor:
    return MAX_POOL2D.reference(
        input=arrays["input"],
        kernel_size=params["kernel"],
        stride=params["stride"],
        padding=params["padding"],
        dilation=[1, 1],
        ceil_mode=False,
        input_zero_point=0,
        output_zero_point=0,
        activation_min=params["activation_min"],
        activation_max=params["activation_max"],
    )


def batch_matmul(params: Params, arrays: Tensors) -> torch.Tensor:
    result = BATCH_MATMUL.reference(
        lhs=arrays["lhs"],
        lhs_zero_point=-params["lhs_zero_point"],
        rhs_transposed=arrays["rhs_transposed"],
        rhs_zero_point=-params["rhs_zero_point"],
        output_zero_point=params["output_zero_point"],
        output_multiplier=params["multiplier"],
        output_shift=params["shift"],
    )
    return result.clamp(params["activation_min"], params["activation_max"])


RUNS: dict[str, tuple[str, Run]] = {
    "conv2d": ("conv2d", conv2d),
    "depthwise": ("depthwise_conv2d", depthwise),
    "depthwise as a grouped convolution": ("depthwise_conv2d", grouped_conv2d),
    "linear as a 1x1 convolution": ("linear", linear_as_conv2d),
    "avg_pool2d": ("avg_pool2d", avg_pool2d),
    "max_pool2d": ("max_pool2d", max_pool2d),
    "batch_matmul": ("batch_matmul", batch_matmul),
}


@pytest.mark.parametrize("kind", RUNS)
def test_reference_equals_every_golden_layer(kind: str) -> None:
    name, run = RUNS[kind]
    cases = recorded_tensors(name)
    assert len(cases) == LAYERS[name]
    for number, (params, arrays) in enumerate(cases):
        np.testing.assert_array_equal(run(params, arrays), arrays["output"], err_msg=f"{kind}, layer {number}")


@pytest.mark.parametrize(("with_bias", "with_sum"), [(True, False), (False, True), (True, True)])
def test_quantized_linear_equals_the_per_tensor_layers(with_bias: bool, with_sum: bool) -> None:
    """Whichever of bias and kernel_sum a core reads."""
    cases = [(params, arrays) for params, arrays in recorded_tensors("linear") if not params["per_channel"]]
    assert len(cases) > 10
    for number, (params, arrays) in enumerate(cases):
        found = linear(params, arrays, with_bias, with_sum)
        np.testing.assert_array_equal(found, arrays["output"], err_msg=f"layer {number}")
