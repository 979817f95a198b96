"""Functions of elements under every name that aten has for them and Cortado takes.

Each is called by its overload, so that the graph holds just that one. Arguments are kept where the function is defined
and not steep: a network of dozens of layers should still have something to say at its end.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch

from fuzz.choices import aten, broadcasts, no_options, pair
from fuzz.recipe import Block, Tensor

GUARDS: dict[str, Callable[[Tensor], Tensor]] = {
    "any": lambda x: x,
    "unit": lambda x: x.clamp(-0.9, 0.9),
    "small": lambda x: x.clamp(-2.0, 2.0),
    "positive": lambda x: x.abs() + 0.5,
    "above one": lambda x: x.abs() + 1.1,
    "part": lambda x: x.sigmoid() * 0.8 + 0.1,
}

# name of the overload -> where it is defined, and its other arguments
FUNCTIONS: dict[str, tuple[str, tuple[Any, ...]]] = {
    **dict.fromkeys(
        [
            "abs",
            "absolute",
            "asinh",
            "atan",
            "ceil",
            "cos",
            "deg2rad",
            "erf",
            "erfc",
            "fix",
            "floor",
            "frac",
            "hardsigmoid",
            "hardswish",
            "log_sigmoid",
            "mish",
            "neg",
            "negative",
            "positive",
            "relu",
            "relu6",
            "round",
            "selu",
            "sgn",
            "sigmoid",
            "sign",
            "silu",
            "sin",
            "sinc",
            "special_erf",
            "special_erfc",
            "special_expit",
            "special_sinc",
            "square",
            "tanh",
            "trunc",
            "nan_to_num",
            "gelu",
            "elu",
            "celu",
            "hardshrink",
            "softshrink",
            "hardtanh",
            "leaky_relu",
            "rrelu",
            "softplus",
        ],
        ("any", ()),
    ),
    **dict.fromkeys(
        ["exp", "exp2", "expm1", "sinh", "cosh", "special_exp2", "special_expm1", "rad2deg"], ("small", ())
    ),
    **dict.fromkeys(
        ["log", "log10", "log1p", "log2", "sqrt", "rsqrt", "reciprocal", "special_log1p"], ("positive", ())
    ),
    **dict.fromkeys(["acos", "asin", "atanh", "tan"], ("unit", ())),
    **dict.fromkeys(["logit", "special_logit"], ("part", ())),
    "acosh": ("above one", ()),
    "clamp": ("any", (-0.5, 0.7)),
    "clip": ("any", (-0.25, None)),
    "clamp_min": ("any", (0.0,)),
    "clamp_max": ("any", (0.5,)),
    "threshold": ("any", (0.1, -0.2)),
    "round.decimals": ("any", ()),
    "pow.Tensor_Scalar": ("any", (2,)),
    "add.Scalar": ("any", (0.5,)),
    "sub.Scalar": ("any", (0.25,)),
    "subtract.Scalar": ("any", (-0.75,)),
    "rsub.Scalar": ("any", (1.0,)),
    "mul.Scalar": ("any", (-1.5,)),
    "multiply.Scalar": ("any", (0.75,)),
    "div.Scalar": ("any", (1.25,)),
    "divide.Scalar": ("any", (-0.8,)),
    "true_divide.Scalar": ("any", (2.0,)),
    "floor_divide.Scalar": ("any", (0.5,)),
    "fmod.Scalar": ("any", (1.5,)),
    "remainder.Scalar": ("any", (2.0,)),
    "copysign.Scalar": ("any", (-1.0,)),
    "xlogy.Scalar_Other": ("any", (1.5,)),
}


def overload(name: str) -> Any:
    packet, _, chosen = name.partition(".")
    return getattr(getattr(aten, packet), chosen or "default")


def guarded(name: str, guard: str, args: tuple[Any, ...]) -> Block:
    call, safe = overload(name), GUARDS[guard]
    rest = {"decimals": 1} if name == "round.decimals" else {}
    return Block(lambda shape: True, no_options, lambda shape: lambda x: call(safe(x), *args, **rest), weight=0.4)


def of_one(call: Callable[[Tensor], Tensor]) -> Block:
    return Block(lambda shape: True, no_options, lambda shape: call, weight=0.4)


def other(x: Tensor) -> Tensor:
    """Another function of the same elements."""
    return 0.5 - x


def mask(x: Tensor) -> Tensor:
    return x > 0.25


def either(x: Tensor, condition: Tensor) -> Tensor:
    return torch.where(condition, x, x * 0.5)


def number(value: float) -> Tensor:
    return torch.full((), value)


def choosing(
    names: Iterable[str], operands: Callable[[Tensor], tuple[Any, ...]]
) -> dict[str, Callable[[Tensor], Tensor]]:
    """For each operator the elements that it says are chosen."""

    def one(name: str) -> Callable[[Tensor], Tensor]:
        return lambda x: either(x, overload(name)(*operands(x)))

    return {name: one(name) for name in names}


BITWISE = ["bitwise_and", "bitwise_or", "bitwise_xor"]
COMPARISONS = ["eq", "ne", "gt", "ge", "lt", "le", "greater", "greater_equal", "less", "less_equal", "not_equal"]
CHOICES: dict[str, Callable[[Tensor], Tensor]] = {
    **choosing([f"{name}.Scalar" for name in COMPARISONS], lambda x: (x, 0.3)),
    **choosing([f"{name}.Tensor" for name in COMPARISONS], lambda x: (x, other(x))),
    **choosing(["logical_and", "logical_or", "logical_xor"], lambda x: (mask(x), x < 1)),
    "logical_not": lambda x: either(x, torch.logical_not(mask(x))),
    **choosing([f"{name}.Tensor" for name in BITWISE], lambda x: (mask(x), x < 1)),
    **choosing([f"{name}.Scalar" for name in BITWISE], lambda x: (mask(x), True)),
    **choosing([f"{name}.Scalar_Tensor" for name in BITWISE], lambda x: (True, mask(x))),
    "bitwise_not": lambda x: either(x, torch.bitwise_not(mask(x))),
    "where.self": lambda x: torch.where(mask(x), x, other(x)),
    "where.Scalar": lambda x: x * torch.where(mask(x), 0.5, -1.0),
    "where.ScalarOther": lambda x: aten.where.ScalarOther(mask(x), x, 0.25),
    "where.ScalarSelf": lambda x: aten.where.ScalarSelf(mask(x), -0.25, x),
    "masked_fill.Scalar": lambda x: x.masked_fill(mask(x), -0.5),
    "masked_fill.Tensor": lambda x: aten.masked_fill.Tensor(x, mask(x), number(0.5)),
    "to.dtype": lambda x: x * mask(x).to(torch.float32),
    "_to_copy": lambda x: x * aten._to_copy.default(mask(x), dtype=torch.float32),
}
ARITHMETIC: dict[str, Callable[[Tensor], Tensor]] = {
    "pow.Scalar": lambda x: aten.pow.Scalar(1.5, x.clamp(-2, 2)),
    "pow.Tensor_Tensor": lambda x: aten.pow.Tensor_Tensor(x.abs() + 0.5, x.tanh()),
    "remainder.Scalar_Tensor": lambda x: aten.remainder.Scalar_Tensor(3.0, x.abs() + 1),
    "remainder.Tensor": lambda x: torch.remainder(x, number(1.5)),
    "fmod.Tensor": lambda x: torch.fmod(x, number(1.5)),
    "floor_divide": lambda x: torch.floor_divide(x, number(0.75)),
    "div.Scalar_mode": lambda x: aten.div.Scalar_mode(x, 0.5, rounding_mode="floor"),
    "div.Tensor_mode": lambda x: aten.div.Tensor_mode(x, number(0.5), rounding_mode="trunc"),
    "divide.Scalar_mode": lambda x: aten.divide.Scalar_mode(x, 0.5, rounding_mode="trunc"),
    "divide.Tensor_mode": lambda x: aten.divide.Tensor_mode(x, number(0.5), rounding_mode="floor"),
    "copysign.Tensor": lambda x: torch.copysign(x, number(-1.0)),
    "heaviside": lambda x: x * torch.heaviside(x, number(0.5)),
    "hypot": lambda x: torch.hypot(x, other(x)),
    "atan2": lambda x: torch.atan2(x, x.abs() + 0.5),
    "xlogy.Tensor": lambda x: torch.xlogy(x, x.abs() + 0.5),
    "xlogy.Scalar_Self": lambda x: aten.xlogy.Scalar_Self(1.5, x.abs() + 0.5),
    "prelu": lambda x: aten.prelu.default(x, torch.full((1,), 0.2)),
    "_prelu_kernel": lambda x: aten._prelu_kernel.default(x, torch.full((1,) * x.dim(), 0.2)),
    "clamp.Tensor": lambda x: aten.clamp.Tensor(x, number(-0.5), number(0.75)),
    "clamp_min.Tensor": lambda x: aten.clamp_min.Tensor(x, number(-0.25)),
    "clamp_max.Tensor": lambda x: aten.clamp_max.Tensor(x, number(0.5)),
    "clip.Tensor": lambda x: aten.clip.Tensor(x, number(-1.0), number(0.5)),
    "sqrt_of_abs": lambda x: x.abs().sqrt(),
    "hand_made_hardswish": lambda x: x * torch.nn.functional.relu6(x + 3) / 6,
    "hand_made_gelu": lambda x: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.0447 * x**3))),
}


def quotient(a: Tensor, b: Tensor) -> Tensor:
    return a / (b.abs() + 0.5)


PAIRS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sub": torch.sub,
    "mul": torch.mul,
    "div": quotient,
    "minimum": torch.minimum,
    "maximum": torch.maximum,
    "fmin": torch.fmin,
    "fmax": torch.fmax,
    "max.other": torch.max,
    "min.other": torch.min,
    "subtract": torch.subtract,
    "multiply": torch.multiply,
    "rsub": lambda a, b: aten.rsub.Tensor(a, b),
    "divide": lambda a, b: torch.divide(a, b.abs() + 1),
    "true_divide": lambda a, b: torch.true_divide(a, b.abs() + 1),
    "add_scaled": lambda a, b: torch.add(a, b, alpha=-0.5),
    "sub_scaled": lambda a, b: torch.sub(a, b, alpha=2),
}

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "nn.ReLU": torch.nn.ReLU(),
    "F.relu": torch.nn.functional.relu,
    "x.relu": lambda x: x.relu(),
    "clamp(min=0)": lambda x: x.clamp(min=0),
    "maximum(0)": lambda x: torch.maximum(x, torch.zeros(())),
    "relu6": torch.nn.functional.relu6,
    "nn.ReLU6": torch.nn.ReLU6(),
    "nn.Hardswish": torch.nn.Hardswish(),
    "nn.SiLU": torch.nn.SiLU(),
    "hardtanh": lambda x: torch.nn.functional.hardtanh(x, -0.5, 0.75),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}

CALLS: dict[str, Block] = {
    **{f"aten.{name}": guarded(name, guard, args) for name, (guard, args) in FUNCTIONS.items()},
    **{f"aten.{name}": of_one(call) for name, call in (CHOICES | ARITHMETIC).items()},
    **{name: pair(call, broadcasts) for name, call in PAIRS.items()},
    "add": Block(broadcasts, no_options, lambda shape: torch.add, sources=2, weight=20),
    "activation": Block(
        lambda shape: True,
        lambda rng, shape: dict(kind=rng.choice(list(ACTIVATIONS))),
        lambda shape, kind: ACTIVATIONS[kind],
        weight=20,
    ),
}
