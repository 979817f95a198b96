"""Meaning of aten's calls: which are copies, sums, selections, comparisons, whatever names torch has for them.

`_ROWS` is the one place that says that sub, subtract and rsub are sums. Code that reads a graph before each call has
one spelling (masks, signs, exact comparisons, folding, tables of one tensor) asks for the meaning of a call, not for
names. A row names operators with all of their overloads, or one overload; in-place forms mean what the plain ones do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed
from torch._ops import OpOverload
from torch.fx import Node

from cortado.ir.domain import overloads
from cortado.ir.graph import bind

aten = torch.ops.aten
BELOW, EQUAL, ABOVE = 1, 2, 4  # the relations that a comparison accepts


class CallKind(Enum):
    """Operations that calls compute."""

    COPY = auto()  # its operand
    CONVERT = auto()  # its operand in another type
    DROPOUT = auto()  # its operand, except in training
    FILL = auto()  # a constant value: only the shape and type of its first operand matter
    OVERWRITE = auto()  # another tensor, in the shape and type of the first operand
    BROADCAST = auto()  # the same, from a tensor with one value
    EMPTY = auto()  # uninitialized memory
    CHECK = auto()  # no value
    VIEW = auto()  # its operand with another shape
    SUM = auto()  # of two operands with `signs`; alpha multiplies the one that is added or subtracted
    PRODUCT = auto()
    QUOTIENT = auto()  # not rounded
    ADDED_PRODUCT = auto()  # beta * self + alpha * a matrix product
    MAXIMUM = auto()  # of two tensors
    MINIMUM = auto()
    SELECT = auto()  # one of two operands, by a truth value
    COMPARE = auto()  # with the relations that it `accepts`
    NOT = auto()
    COMBINATION = auto()  # any other function of several tensors, element by element
    EXPONENTIAL = auto()
    WITHOUT_NAN = auto()
    IS_NAN = auto()
    FUNCTION = auto()  # any other function of one tensor, element by element
    ATTENTION = auto()
    SOFTMAX = auto()
    LOG_SOFTMAX = auto()
    LOG_SUM_EXP = auto()
    EXTREME = auto()  # the largest or smallest values of one tensor, their positions, or all in sorted order
    MEAN = auto()
    WINDOW_MEAN = auto()
    ADAPTIVE_MEAN = auto()  # over windows derived from the result's size
    TOTAL = auto()  # the sum of one tensor
    QUANTIZE = auto()  # with one scale
    DEQUANTIZE = auto()
    QUANTIZE_CHANNELS = auto()  # with a scale for each channel
    DEQUANTIZE_CHANNELS = auto()


class Rounding(Enum):
    """The integer near a real number that a rounding function picks."""

    DOWN = auto()
    UP = auto()
    TOWARD_ZERO = auto()
    NEAREST = auto()  # ties to even


@dataclass(frozen=True)
class Meaning:
    """The operation of a call, with the attributes that tell apart the calls of one kind."""

    kind: CallKind
    signs: tuple[int, int] = (1, 1)  # of a sum
    accepts: int = 0  # of a comparison
    largest: bool = False  # of an extreme without an argument for it
    value: bool = False  # of an extreme: it returns values, not positions
    monotone: bool = False  # with the other operands fixed, it never decreases, or never increases, as an operand grows
    rounding: Rounding | None = None  # of a function that rounds its operand to an integer


_FUNCTIONS = (
    "sigmoid special_expit tanh silu gelu hardswish hardsigmoid leaky_relu elu selu celu mish softplus exp2 expm1 log "
    "log2 log10 log1p log_sigmoid sqrt rsqrt abs absolute sin cos tan asin acos atan sinh cosh asinh acosh atanh "
    "reciprocal erf erfc square sign sgn frac threshold logit special_logit hardshrink softshrink deg2rad rad2deg "
    "sinc special_erf special_erfc special_exp2 special_expm1 special_log1p special_sinc relu6 hardtanh"
)
_COMBINATIONS = (
    "floor_divide remainder fmod pow logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor prelu "
    "_prelu_kernel xlogy copysign heaviside hypot atan2"
)
_ROWS: tuple[tuple[str, Meaning], ...] = (
    ("clone contiguous alias detach lift_fresh_copy positive", Meaning(CallKind.COPY)),
    ("to _to_copy type_as", Meaning(CallKind.CONVERT)),
    ("dropout feature_dropout alpha_dropout feature_alpha_dropout", Meaning(CallKind.DROPOUT)),
    ("zeros_like ones_like full_like new_zeros new_ones new_full fill.Scalar zero", Meaning(CallKind.FILL)),
    ("copy", Meaning(CallKind.OVERWRITE)),
    ("fill.Tensor", Meaning(CallKind.BROADCAST)),
    ("empty empty_like empty_permuted empty_strided new_empty new_empty_strided", Meaning(CallKind.EMPTY)),
    ("_assert_tensor_metadata _assert_async _assert_scalar", Meaning(CallKind.CHECK)),
    ("reshape view", Meaning(CallKind.VIEW)),
    ("add", Meaning(CallKind.SUM, monotone=True)),
    ("sub subtract", Meaning(CallKind.SUM, signs=(1, -1), monotone=True)),
    ("rsub", Meaning(CallKind.SUM, signs=(-1, 1), monotone=True)),
    ("mul multiply", Meaning(CallKind.PRODUCT, monotone=True)),
    ("div divide true_divide", Meaning(CallKind.QUOTIENT, monotone=True)),
    ("baddbmm addmm", Meaning(CallKind.ADDED_PRODUCT)),
    ("maximum fmax max.other", Meaning(CallKind.MAXIMUM)),
    ("minimum fmin min.other", Meaning(CallKind.MINIMUM)),
    ("where masked_fill", Meaning(CallKind.SELECT)),
    ("lt less", Meaning(CallKind.COMPARE, accepts=BELOW)),
    ("le less_equal", Meaning(CallKind.COMPARE, accepts=BELOW | EQUAL)),
    ("gt greater", Meaning(CallKind.COMPARE, accepts=ABOVE)),
    ("ge greater_equal", Meaning(CallKind.COMPARE, accepts=ABOVE | EQUAL)),
    ("eq", Meaning(CallKind.COMPARE, accepts=EQUAL)),
    ("ne not_equal", Meaning(CallKind.COMPARE, accepts=BELOW | ABOVE)),
    ("logical_not bitwise_not", Meaning(CallKind.NOT)),
    (_COMBINATIONS, Meaning(CallKind.COMBINATION)),
    ("exp", Meaning(CallKind.EXPONENTIAL)),
    ("nan_to_num", Meaning(CallKind.WITHOUT_NAN)),
    ("isnan", Meaning(CallKind.IS_NAN)),
    (_FUNCTIONS, Meaning(CallKind.FUNCTION)),
    ("floor", Meaning(CallKind.FUNCTION, monotone=True, rounding=Rounding.DOWN)),
    ("ceil", Meaning(CallKind.FUNCTION, monotone=True, rounding=Rounding.UP)),
    ("trunc fix", Meaning(CallKind.FUNCTION, monotone=True, rounding=Rounding.TOWARD_ZERO)),
    ("round.default", Meaning(CallKind.FUNCTION, monotone=True, rounding=Rounding.NEAREST)),
    (
        "neg negative round.decimals relu clamp clamp_min clamp_max clip",
        Meaning(CallKind.FUNCTION, monotone=True),
    ),
    ("scaled_dot_product_attention", Meaning(CallKind.ATTENTION)),
    ("softmax _softmax", Meaning(CallKind.SOFTMAX)),
    ("log_softmax _log_softmax", Meaning(CallKind.LOG_SOFTMAX)),
    ("logsumexp", Meaning(CallKind.LOG_SUM_EXP)),
    ("amax max.default max.dim", Meaning(CallKind.EXTREME, largest=True, value=True)),
    ("amin min.default min.dim", Meaning(CallKind.EXTREME, value=True)),
    ("argmax topk", Meaning(CallKind.EXTREME, largest=True)),
    ("argmin sort argsort", Meaning(CallKind.EXTREME)),
    ("mean", Meaning(CallKind.MEAN)),
    ("avg_pool1d avg_pool2d avg_pool3d", Meaning(CallKind.WINDOW_MEAN)),
    (
        "adaptive_avg_pool1d adaptive_avg_pool2d _adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool3d",
        Meaning(CallKind.ADAPTIVE_MEAN),
    ),
    ("sum", Meaning(CallKind.TOTAL)),
    ("quantize_per_tensor", Meaning(CallKind.QUANTIZE)),
    ("quantize_per_channel", Meaning(CallKind.QUANTIZE_CHANNELS)),
    ("dequantize_per_tensor", Meaning(CallKind.DEQUANTIZE)),
    ("dequantize_per_channel", Meaning(CallKind.DEQUANTIZE_CHANNELS)),
)
MEANS = (CallKind.MEAN, CallKind.WINDOW_MEAN, CallKind.ADAPTIVE_MEAN)
QUANTIZES = (CallKind.QUANTIZE, CallKind.QUANTIZE_CHANNELS)
DEQUANTIZES = (CallKind.DEQUANTIZE, CallKind.DEQUANTIZE_CHANNELS)
_ROUNDED = Meaning(CallKind.COMBINATION)  # a quotient with a rounding mode


def _overloads(names: str) -> Iterator[OpOverload]:
    """Yields every overload that a row names, including the in-place ones."""
    for name in names.split():
        base, _, wanted = name.partition(".")
        space = torch.ops.quantized_decomposed if "quantize_per" in base else torch.ops.aten
        for packet in [getattr(space, one) for one in (base, f"{base}_") if hasattr(space, one)]:
            yield from (getattr(packet, one) for one in packet.overloads() if wanted in ("", one))


_MEANINGS: dict[Any, Meaning] = {target: found for names, found in _ROWS for target in _overloads(names)}


def target_means(target: Any, *kinds: CallKind) -> bool:
    """Whether calls of a target have one of these kinds."""
    return target in _MEANINGS and _MEANINGS[target].kind in kinds


def meaning_of(node: Any) -> Meaning | None:
    """Returns the meaning of a call; None if it has no row."""
    found = _MEANINGS.get(node.target) if isinstance(node, Node) and node.op == "call_function" else None
    rounded = found is not None and found.kind is CallKind.QUOTIENT and bind(node).get("rounding_mode") is not None
    return _ROUNDED if rounded else found


def sum_factors(node: Node) -> tuple[float, float]:
    """Returns the factors of `self` and `other` in a sum."""
    alpha, found = float(bind(node).get("alpha", 1)), _MEANINGS[node.target]
    return (-alpha, 1.0) if found.signs == (-1, 1) else (1.0, found.signs[1] * alpha)


def dimensions_of_windows(node: Node) -> int:
    """Returns the number of spatial dimensions of a mean's windows."""
    target: Any = node.target
    return int(next(one.N for one in target._schema.arguments if one.name == "kernel_size"))


def means(node: Any, *kinds: CallKind) -> bool:
    """Whether a node is a call of one of these kinds."""
    found = meaning_of(node)
    return found is not None and found.kind in kinds


def calls(*kinds: CallKind) -> dict[OpOverload, Meaning]:
    """Returns the calls of these kinds that return a single new tensor."""
    single = set(overloads(*(target.overloadpacket for target, found in _MEANINGS.items() if found.kind in kinds)))
    return {target: found for target, found in _MEANINGS.items() if found.kind in kinds and target in single}


_ORDERS = (aten.topk.default, aten.sort.default, aten.argsort.default)


def is_open(target: Any) -> bool:
    """Whether torch has several ways to compute a call, some of them wrong or in another order: transposed
    convolutions, and sorts that may give equal numbers in any order."""
    return "conv_transpose" in str(target) or target is aten.convolution.default or target in _ORDERS


def leaves_order_open(target: Any) -> bool:
    """Whether equal numbers, or all results of a call, can come in any order."""
    return target in _ORDERS
