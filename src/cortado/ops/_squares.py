"""Squares in the float graph, however they are written, and what stands between them and a square root."""

import math
from typing import Any

import torch
from torch.fx import Node

from cortado.ir.facts import dtype
from cortado.ir.graph import bind, is_call, shape, sole_user

aten = torch.ops.aten
LONGEST = 2**16  # squares of codes, of which a sum has 32 bits


def squared(node: Any) -> Node | None:
    """What a node is the square of."""
    if not isinstance(node, Node) or node.op != "call_function" or dtype(node) != torch.float32:
        return None
    bound = bind(node)
    product = is_call(node, aten.mul.Tensor) and bound["self"] is bound["other"]
    power = is_call(node, aten.pow.Tensor_Scalar) and bound["exponent"] == 2
    base = bound["self"] if product or power or is_call(node, aten.square.default) else None
    return base if isinstance(base, Node) else None


def summed(node: Node) -> Node | None:
    """What a node is the sum of squares of, over some dimensions."""
    if not is_call(node, aten.sum.default, aten.sum.dim_IntList) or dtype(node) != torch.float32:
        return None
    base = squared(bind(node)["self"])
    fits = base is not None and 0 < math.prod(shape(base)) <= LONGEST * math.prod(shape(node))
    return base if fits else None


def root_argument(root: Node) -> tuple[Node, float]:
    """What a root is taken of, without a number that is added to it; and that number."""
    source: Node = bind(root)["self"]
    if is_call(source, aten.add.Tensor) and isinstance(bind(source)["other"], int | float):
        return bind(source)["self"], float(bind(source)["other"] * bind(source)["alpha"])
    return source, 0.0


def is_under_root(node: Node) -> bool:
    """Whether a sum of squares is there for its root alone."""
    user = sole_user(node)
    if user is not None and is_call(user, aten.add.Tensor):
        user = sole_user(user)
    if summed(node) is None or user is None or not is_call(user, aten.sqrt.default):
        return False
    source, added = root_argument(user)
    return source is node and added >= 0
