"""Functions of several tensors, element by element, and products along a dimension, in terms of calls that have
operators.

Also finds squares in the float graph, however they are written, and the number added between them and a square root.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from cortado.base.numerics import Tensor
from cortado.ir.facts import dtype
from cortado.ir.graph import Bound, bind, is_call, shape, sole_user
from cortado.ir.op import Decomposition
from cortado.ops.elementwise.pointwise import operands

# ---- function forms --------------------------------------------------------------------------------------

aten = torch.ops.aten


def of_several(bound: Bound) -> bool:
    """Whether a call has several tensors as operands; a function of a single one is a table."""
    return len(operands(bound.node)) > 1


def log_add_exp(self: Tensor, other: Tensor) -> Tensor:
    """Computes log(exp(a) + exp(b)) = max(a, b) + softplus(-|a - b|)."""
    return torch.maximum(self, other) + torch.nn.functional.softplus(-torch.abs(self - other))


def x_log_y(self: Tensor, other: Tensor) -> Tensor:
    """Computes x * log(y) with y clamped, so that 0 * log(0) is 0."""
    smallest = torch.finfo(torch.float32).smallest_normal
    return self * torch.log(torch.clamp(other, min=smallest))


def copy_sign(self: Tensor, other: Tensor) -> Tensor:
    sign = (other >= 0).to(torch.float32) * 2 - 1
    return torch.abs(self) * sign


def divided(self: Tensor, other: Tensor, *, rounding_mode: str | None) -> Tensor:
    """Computes a quotient and rounds it as `rounding_mode` says."""
    quotient = torch.div(self, other)
    if rounding_mode is None:
        return quotient
    return torch.floor(quotient) if rounding_mode == "floor" else torch.trunc(quotient)


def floor_divided(self: Tensor, other: Tensor) -> Tensor:
    return divided(self, other, rounding_mode="floor")


def _gives_reals(bound: Bound) -> bool:
    """Whether a quotient is of real numbers; rounded quotients of integers are integers, with rules of their own."""
    return dtype(bound.node).is_floating_point and of_several(bound)


def product(self: Tensor, dim: int, keepdim: bool = False, **_: Any) -> Tensor:
    """Multiplies halves with each other until one number is left: this way each result is rounded the fewest times."""
    size = self.shape[dim]
    while size > 1:
        half = size // 2
        pairs = self.narrow(dim, 0, half) * self.narrow(dim, half, half)
        self = torch.cat([pairs, self.narrow(dim, 2 * half, 1)], dim) if size % 2 else pairs
        size = self.shape[dim]
    return self if keepdim else self.squeeze(dim)


def product_of_all(self: Tensor, **_: Any) -> Tensor:
    return product(self.reshape(-1), 0)


def asks_for_float32(bound: Bound) -> bool:
    """Whether a call's dtype argument, if there is one, is float32."""
    return bound["dtype"] in (None, torch.float32)


def sum_of_numbers(self: Tensor, dim: Sequence[int] | None, keepdim: bool, **_: Any) -> Tensor:
    return torch.sum(self, list(dim), keepdim) if dim else torch.sum(self)


LOG_ADD_EXP = Decomposition(aten=(aten.logaddexp.default,), function=log_add_exp)
X_LOG_Y = Decomposition(aten=(aten.xlogy.Tensor, aten.special_xlogy.default), function=x_log_y, takes=of_several)
COPY_SIGN = Decomposition(aten=(aten.copysign.Tensor,), function=copy_sign, takes=of_several)
DIVIDED = Decomposition(
    aten=(aten.div.Tensor_mode, aten.divide.Tensor_mode),
    function=divided,
    takes=lambda bound: bound["rounding_mode"] is None or _gives_reals(bound),
)
FLOOR_DIVIDED = Decomposition(aten=(aten.floor_divide.default,), function=floor_divided, takes=_gives_reals)
PRODUCT = Decomposition(aten=(aten.prod.dim_int,), function=product, takes=asks_for_float32)
PRODUCT_OF_ALL = Decomposition(aten=(aten.prod.default,), function=product_of_all, takes=asks_for_float32)
# Compiled models have no NaN, so a sum that skips NaN is a plain sum.
SUM_OF_NUMBERS = Decomposition(aten=(aten.nansum.default,), function=sum_of_numbers, takes=asks_for_float32)


# ---- squares ---------------------------------------------------------------------------------------------

LONGEST = 2**16  # squares of codes, whose sum fits 32 bits


def squared(node: Any) -> Node | None:
    """Returns the operand that a node squares, or None."""
    if not isinstance(node, Node) or node.op != "call_function" or dtype(node) != torch.float32:
        return None
    bound = bind(node)
    product = is_call(node, aten.mul.Tensor) and bound["self"] is bound["other"]
    power = is_call(node, aten.pow.Tensor_Scalar) and bound["exponent"] == 2
    base = bound["self"] if product or power or is_call(node, aten.square.default) else None
    return base if isinstance(base, Node) else None


def summed(node: Node) -> Node | None:
    """Returns the operand whose squares a node sums over some dimensions, or None."""
    if not is_call(node, aten.sum.default, aten.sum.dim_IntList) or dtype(node) != torch.float32:
        return None
    base = squared(bind(node)["self"])
    fits = base is not None and 0 < math.prod(shape(base)) <= LONGEST * math.prod(shape(node))
    return base if fits else None


def root_argument(root: Node) -> tuple[Node, float]:
    """Returns the operand of a root without an added number, and that number."""
    source: Node = bind(root)["self"]
    if is_call(source, aten.add.Tensor) and isinstance(bind(source)["other"], int | float):
        return bind(source)["self"], float(bind(source)["other"] * bind(source)["alpha"])
    return source, 0.0


def is_under_root(node: Node) -> bool:
    """Whether a sum of squares is only read by its root."""
    user = sole_user(node)
    if user is not None and is_call(user, aten.add.Tensor):
        user = sole_user(user)
    if summed(node) is None or user is None or not is_call(user, aten.sqrt.default):
        return False
    source, added = root_argument(user)
    return source is node and added >= 0
