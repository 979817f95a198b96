"""Elementwise functions, arithmetic, comparisons, conversions."""

import math
from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from cortado.onnx.node import Built, Node, of, onnx_operator

Tensor = torch.Tensor

_PLAIN: Mapping[str, Callable[[Tensor], Tensor]] = {
    "Abs": torch.abs,
    "Acos": torch.acos,
    "Asin": torch.asin,
    "Atan": torch.atan,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Floor": torch.floor,
    "HardSwish": F.hardswish,
    "Log": torch.log,
    "Mish": F.mish,
    "Neg": torch.neg,
    "Not": torch.logical_not,
    "Reciprocal": torch.reciprocal,
    "Relu": F.relu,
    "Round": torch.round,
    "Sigmoid": torch.sigmoid,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
    "Softplus": F.softplus,
    "Softsign": F.softsign,
    "Sqrt": torch.sqrt,
    "Tan": torch.tan,
    "Tanh": torch.tanh,
}


@onnx_operator(*_PLAIN)
def function(node: Node) -> Built:
    return of(_PLAIN[node.kind])


@onnx_operator("Identity", "Dropout", limits="dropout as in evaluation, without a mask")
def identity(node: Node) -> Built:
    trains = node.kind == "Dropout" and node.has(2) and bool(node.scalar(2))
    if node.outputs > 1 or trains:
        node.refuse("dropout in training", "dropout as in evaluation, with an unused mask")
    return of(lambda x: x)


@onnx_operator(
    *("LeakyRelu", "Elu", "Celu", "ThresholdedRelu", "Selu", "HardSigmoid", "Gelu", "Shrink", "Swish"),
    among={"approximate": ("none", "tanh")},
)
def parametrized(node: Node) -> Built:
    number = node.number
    calls: Mapping[str, Callable[[], Callable[[Tensor], Tensor]]] = {
        "LeakyRelu": lambda: nn.LeakyReLU(number("alpha", 0.01)),
        "Elu": lambda: nn.ELU(number("alpha", 1.0)),
        "Celu": lambda: nn.CELU(number("alpha", 1.0)),
        "ThresholdedRelu": lambda: nn.Threshold(number("alpha", 1.0), 0.0),
        "Selu": lambda: _selu(number("alpha", 1.6732631921768188), number("gamma", 1.0507010221481323)),
        "HardSigmoid": lambda: _hard_sigmoid(number("alpha", 0.2), number("beta", 0.5)),
        "Gelu": lambda: nn.GELU(node.text("approximate", "none")),
        "Shrink": lambda: _shrink(number("bias", 0.0), number("lambd", 0.5)),
        "Swish": lambda: _swish(number("alpha", 1.0)),
    }
    return of(calls[node.kind]())


def _selu(alpha: float, gamma: float) -> Callable[[Tensor], Tensor]:
    return lambda x: gamma * F.elu(x, alpha)


def _hard_sigmoid(alpha: float, beta: float) -> Callable[[Tensor], Tensor]:
    if math.isclose(alpha, 1 / 6, rel_tol=1e-5) and beta == 0.5:
        return F.hardsigmoid
    return lambda x: torch.clamp(x * alpha + beta, 0.0, 1.0)


def _swish(alpha: float) -> Callable[[Tensor], Tensor]:
    return F.silu if alpha == 1.0 else lambda x: x * torch.sigmoid(alpha * x)


def _shrink(bias: float, lambd: float) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, torch.zeros_like(x)))


@onnx_operator("PRelu")
def prelu(node: Node) -> Built:
    slope = node.constant(1)
    spatial = node.rank() - 1
    per_channel = slope.dim() == spatial and slope.shape[1:].numel() == 1
    if slope.numel() == 1 or per_channel:
        module = nn.PReLU(slope.numel())
        module.weight.data = slope.reshape(-1)
        return of(module)
    return of(lambda x, slope: torch.where(x < 0, x * slope, x), 0, 1)


@onnx_operator("Clip", limits="bounds must be constants", infinite=("min", "max"))
def clip(node: Node) -> Built:
    bounds = [
        node.number(name, 0.0) if name in node.attributes else node.scalar(position) if node.has(position) else None
        for name, position in (("min", 1), ("max", 2))
    ]
    if not node.value().is_real:
        bounds = [None if bound is None else int(bound) for bound in bounds]
    low, high = bounds
    if low is None and high is None:
        return of(lambda x: x)
    return of(lambda x: torch.clamp(x, low, high))


# ---- several tensors ---------------------------------------------------------------------------------------------

_BINARY: Mapping[str, Callable[..., Tensor]] = {
    "Add": torch.add,
    "Sub": torch.sub,
    "Mul": torch.mul,
    "Pow": torch.pow,
    "Equal": torch.eq,
    "Greater": torch.gt,
    "GreaterOrEqual": torch.ge,
    "Less": torch.lt,
    "LessOrEqual": torch.le,
    "And": torch.logical_and,
    "Or": torch.logical_or,
    "Xor": torch.logical_xor,
}


@onnx_operator(*_BINARY)
def binary(node: Node) -> Built:
    call = _BINARY[node.kind]
    single = node.value(1).data
    if single is not None and single.numel() == 1 and node.rank() >= single.dim() and single.dtype != torch.bool:
        number = single.item()  # as a number it needs no tensor of its own
        return of(lambda x: call(x, number))
    return of(call, 0, 1)


@onnx_operator("Div")
def div(node: Node) -> Built:
    if node.value(0).is_real:
        single = node.value(1).data
        if single is not None and single.numel() == 1 and node.rank() >= single.dim():
            number = single.item()
            return of(lambda x: x / number)
        return of(torch.div, 0, 1)
    return of(partial(torch.div, rounding_mode="trunc"), 0, 1)


@onnx_operator("Mod")
def mod(node: Node) -> Built:
    return of(torch.fmod if node.flag("fmod") else torch.remainder, 0, 1)


@onnx_operator("Max", "Min", "Sum", "Mean")
def several(node: Node) -> Built:
    pairs: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {"Max": torch.maximum, "Min": torch.minimum}
    pair, count = pairs.get(node.kind, torch.add), len(node.inputs)

    def call(*given: Tensor) -> Tensor:
        total = reduce(pair, given)
        return total / count if node.kind == "Mean" else total

    return of(call, *range(count))


@onnx_operator("Where")
def where(node: Node) -> Built:
    return of(torch.where, 0, 1, 2)


@onnx_operator("IsNaN", "IsInf")
def is_odd(node: Node) -> Built:
    if node.kind == "IsInf" and not (node.flag("detect_negative", True) and node.flag("detect_positive", True)):
        node.refuse("one kind of infinity", "both")
    return of(torch.isnan if node.kind == "IsNaN" else torch.isinf)


# ---- types -------------------------------------------------------------------------------------------------------

TYPES: Mapping[int, torch.dtype] = {
    1: torch.float32,
    2: torch.uint8,
    3: torch.int8,
    5: torch.int16,
    6: torch.int32,
    7: torch.int64,
    9: torch.bool,
    10: torch.float16,
    11: torch.float64,
    4: torch.uint16,
    16: torch.bfloat16,
}
"""ONNX's numbers for element types."""


def real(dtype: torch.dtype) -> torch.dtype:
    """Returns the dtype that a model computes in: float32 for every floating-point type."""
    return torch.float32 if dtype.is_floating_point else dtype


@onnx_operator("Cast", "CastLike", limits="floats of every width become float32")
def cast(node: Node) -> Built:
    if node.kind == "CastLike":
        dtype = node.value(1).dtype
    else:
        number = node.integer("to")
        if number not in TYPES:
            node.refuse(f"it converts to type {number} of ONNX", "a float, an integer or a boolean")
        dtype = TYPES[number]
    wanted: Any = real(dtype)
    return of(lambda x: x if x.dtype == wanted else x.to(wanted))
