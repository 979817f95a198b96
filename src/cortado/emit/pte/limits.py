"""What the kernels of ExecuTorch 1.5.1 can't do, call by call. Lowering and `Operator.pte` write it in another way."""

import math
from collections.abc import Callable, Mapping

from cortado.ir.op import Call
from cortado.ops.pad import looks_channels_last
from cortado.ops._transposed import Axis, zero_taps


def _rank_4(call: Call) -> str | None:
    rank = len(call.shape("input"))
    return f"takes at most rank 4, found rank {rank}" if rank > 4 else None


def _batch_1(call: Call) -> str | None:
    batch = call.shape("input")[0]
    return f"takes one image at a time, found a batch of {batch}" if batch > 1 else None


def _has_bias(call: Call) -> str | None:
    grouped = call.shape("input")[3] != call.shape("weight")[3]
    return "needs a bias when it is grouped" if grouped and call["bias"] is None else None


def _plain_pool(call: Call) -> str | None:
    plain = not call["ceil_mode"] and list(call["dilation"]) == [1, 1]
    return None if plain else "knows neither ceil_mode nor dilation"


def _equal_shapes(call: Call) -> str | None:
    mine, other = call.shape("self"), call.shape("other")
    return None if mine == other else f"takes equal shapes, found {list(mine)} and {list(other)}"


def _equal_or_per_channel(call: Call) -> str | None:
    mine, other = call.shape("self"), call.shape("other")
    one, every = sorted((mine, other), key=math.prod)
    per_channel = len(mine) == len(other) == 4 and one[1] == every[1] == math.prod(one) and looks_channels_last(every)
    if mine == other or per_channel:
        return None
    return f"takes equal shapes or one value per element of dimension 1, found {list(mine)} and {list(other)}"


def _right_taps(call: Call) -> str | None:
    axes = zip(call.shape("weight")[1:3], call["stride"], call["padding"], call["output_padding"], strict=True)
    rows, columns = (Axis(*axis) for axis in axes)
    taps = zero_taps(rows, columns, call.shape("input"))
    right = list(call["dilation"]) == [1, 1] and taps == [(0, 0), (0, 0)]
    return None if right else "is wrong for this kernel, stride, padding, output padding and dilation"


RUNTIME_LIMITS: Mapping[str, Callable[[Call], str | None]] = {
    "cortex_m::transpose": _rank_4,
    "cortex_m::pad": _rank_4,
    "cortex_m::quantized_depthwise_conv2d_nhwc": _batch_1,
    "cortex_m::quantized_conv2d_nhwc": _has_bias,
    "cortex_m::quantized_max_pool2d_nhwc": _plain_pool,
    "cortex_m::quantized_add": _equal_or_per_channel,
    "cortex_m::quantized_mul": _equal_or_per_channel,
    "cortex_m::quantized_div": _equal_shapes,
    "cortex_m::quantized_transpose_conv2d_nhwc": _right_taps,
}
"""Calls that ExecuTorch's own kernels can't make, and why. Lowering makes none, and Cortado's library refuses them."""
