"""Layers of int16 codes and int8 weights: how their sums stay within what is rescaled, and their kernels.

Codes are symmetric, so a sum is bias + sum(x * w). Where it may leave 32 bits it is divided by 2^shift first, to
nearest, ties up; the rescaling makes up for it.
"""

import math
from typing import Any

import numpy as np
import torch

from cortado.base.element import INT16, Element
from cortado.base.numerics import Tensor, requant
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Operand, Row
from cortado.ir.kernel import Array, Kernel
from cortado.ir.op import Call
from cortado.ir.work import loops
from cortado.ops._work import sliding_fields

LONGEST_ROW = 512  # taps of a depthwise window that are summed up in 32 bits


def sum_shift(weight: Tensor, bias: Tensor | None) -> int:
    """By how many bits the sums of a layer are divided; weight is [out_c, ...]."""
    most = weight.reshape(len(weight), -1).to(torch.int64).abs().sum(1) * -INT16.low
    if bias is not None:
        most = most + bias.to(torch.int64).abs()
    return max(0, int(most.max()).bit_length() - 31)


def divided(total: Tensor, shift: int) -> Tensor:
    return total if shift == 0 else (total + (1 << (shift - 1))) >> shift


def finish(
    acc: Tensor, weight: Tensor, bias: Tensor | None, factors: tuple[Tensor, Tensor], bounds: tuple[int, int]
) -> Tensor:
    """Sums without their bias, channels last, as codes; weight is [out_c, ...]."""
    total = acc if bias is None else acc + bias
    scaled = requant(divided(total, sum_shift(weight, bias)), factors[0].to(torch.int64), factors[1])
    return scaled.clamp(*bounds).to(INT16.torch_dtype).contiguous()


def is_wide(element: Element) -> bool:
    return element.bits == INT16.bits


# ---- the C kernels -------------------------------------------------------------------------------------------


def _fields(call: Call, kernel: tuple[int, int], weights: np.ndarray[Any, Any], by_channel: Tensor) -> dict[str, Any]:
    """A layer's descriptor; `by_channel` are its weights as [out_c, ...]."""
    bias = call["bias"]
    return {
        **sliding_fields(call, kernel),
        "groups": call.shape("input")[3] // by_channel.shape[-1],
        "sum_shift": sum_shift(by_channel, bias),
        "act_min": call["activation_min"],
        "act_max": call["activation_max"],
        "weights": Array(weights),
        "bias": None if bias is None else Array(call.array("bias")),
        "multiplier": Array(call.array("requantize_multipliers")),
        "shift": Array(call.array("requantize_shifts")),
    }


def window_kernel(call: Call, core: Core, pixelwise: bool) -> Kernel:
    """Of an ordinary or grouped convolution; pixelwise: 1x1 over spans of pixels."""
    _, kh, kw, _ = call.shape("weight")
    weights = call.array("weight")
    reads = (Row(0), Operand.OUT, Operand.N) if pixelwise else (Operand.ROWS, Operand.OUT)
    return Kernel(
        call=CCall(f"cortado_{'conv1x1' if pixelwise else 'conv2d'}_s16", (Operand.LAYER, *reads, Operand.SCRATCH)),
        sources=("conv2d_s16.c",),
        struct="cortado_layer_s16_t",
        fields=_fields(call, (kh, kw), weights.reshape(len(weights), -1), call["weight"]),
        work=loops("calls outputs outputs*taps macs", taps=kh * kw),
    )


def depthwise_kernel(call: Call) -> Kernel:
    """Weights are [1, kernel_h, kernel_w, out_c]."""
    weights = call.array("weight")
    _, kh, kw, out_c = weights.shape
    by_channel = call["weight"].permute(3, 1, 2, 0)
    return Kernel(
        call=CCall("cortado_depthwise_s16", (Operand.LAYER, Operand.ROWS, Operand.OUT, Operand.SCRATCH)),
        sources=("depthwise_s16.c",),
        struct="cortado_layer_s16_t",
        fields=_fields(call, (kh, kw), weights.reshape(math.prod((kh, kw)), out_c), by_channel),
        work=loops("calls outputs outputs*rows macs", rows=kh),
    )
