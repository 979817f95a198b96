"""aten's operators by what they compute, all overloads of each: for what reads a graph before its spellings are one."""

from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.fx import Node

from cortado.ir.graph import bind

aten = torch.ops.aten

DIFFERENCES = (aten.sub, aten.subtract)
SUMS = (aten.add, aten.rsub, *DIFFERENCES)
QUOTIENTS = (aten.div, aten.divide, aten.true_divide)
PRODUCTS = (aten.mul, aten.multiply)
ADDED_PRODUCTS = (aten.baddbmm, aten.addmm)
LARGER = (aten.maximum, aten.max, aten.fmax)  # of two tensors
SMALLER = (aten.minimum, aten.min, aten.fmin)
CHOICES = (aten.where, aten.masked_fill)
CONVERSIONS = (aten.to, aten._to_copy)
SOFTMAX = (aten.softmax, aten._softmax)
LOG_SOFTMAX = (aten.log_softmax, aten._log_softmax)
LARGEST_VALUE = (aten.amax, aten.max)  # of one tensor
LARGEST = (aten.argmax, aten.topk, *LARGEST_VALUE)
ORDERED = (aten.amax, aten.argmax, aten.topk, aten.sort, aten.argsort, aten.amin, aten.argmin)  # of one tensor alone


def packet_of(node: Node) -> OpOverloadPacket[Any, Any] | None:
    """aten.add of aten.add.Tensor; None for what is no operator of aten."""
    target = node.target
    return target.overloadpacket if isinstance(target, OpOverload) and target.namespace == "aten" else None


def is_product(node: Any) -> bool:
    return isinstance(node, Node) and packet_of(node) in PRODUCTS


def is_quotient(node: Any) -> bool:
    """One that is not rounded."""
    return isinstance(node, Node) and packet_of(node) in QUOTIENTS and bind(node).get("rounding_mode") is None
