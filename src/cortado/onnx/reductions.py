"""Sums, means and extremes over dimensions; positions of the largest."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from cortado.onnx.node import Built, Node, of, onnx_operator

Tensor = torch.Tensor

_REDUCTIONS: Mapping[str, Callable[..., Tensor]] = {
    "ReduceSum": torch.sum,
    "ReduceMean": torch.mean,
    "ReduceMax": torch.amax,
    "ReduceMin": torch.amin,
    "ReduceSumSquare": lambda x, dim, keepdim: torch.sum(x * x, dim, keepdim=keepdim),
    "ReduceL1": lambda x, dim, keepdim: torch.sum(torch.abs(x), dim, keepdim=keepdim),
    "ReduceL2": lambda x, dim, keepdim: torch.linalg.vector_norm(x, 2, dim, keepdim),
    "ReduceLogSum": lambda x, dim, keepdim: torch.log(torch.sum(x, dim, keepdim=keepdim)),
    "ReduceLogSumExp": lambda x, dim, keepdim: torch.logsumexp(x, dim, keepdim=keepdim),
}


@onnx_operator(*_REDUCTIONS)
def reduction(node: Node) -> Built:
    call, keep = _REDUCTIONS[node.kind], node.flag("keepdims", True)
    given = node.either("axes", 1)
    if not given and node.flag("noop_with_empty_axes"):
        return of(lambda x: x)
    dims = tuple(node.axes(given or range(node.rank())))
    return of(lambda x: call(x, dim=dims, keepdim=keep))


@onnx_operator("ReduceProd")
def product(node: Node) -> Built:
    keep = node.flag("keepdims", True)
    dims = node.axes(node.either("axes", 1) or range(node.rank()))

    def call(x: Tensor) -> Tensor:
        for dim in sorted(dims, reverse=True):
            x = torch.prod(x, dim, keepdim=keep)
        return x

    return of(call)


@onnx_operator("ArgMax", "ArgMin", limits="of equal values the first")
def argmax(node: Node) -> Built:
    if node.flag("select_last_index"):
        node.refuse("select_last_index", "the first of equal values")
    call: Any = torch.argmax if node.kind == "ArgMax" else torch.argmin
    return of(partial(call, dim=node.axis(node.integer("axis", 0)), keepdim=node.flag("keepdims", True)))


@onnx_operator("TopK", limits="a constant number; sorted, equal values in any order")
def topk(node: Node) -> Built:
    count = node.integer("k") if "k" in node.attributes else int(node.scalar(1))
    axis, largest = node.axis(node.integer("axis", -1)), node.flag("largest", True)
    return of(lambda x: tuple(torch.topk(x, count, axis, largest=largest, sorted=True)))


@onnx_operator("CumSum", limits="a constant axis")
def cumsum(node: Node) -> Built:
    axis, reverse, exclusive = node.axis(int(node.scalar(1))), node.flag("reverse"), node.flag("exclusive")

    def call(x: Tensor) -> Tensor:
        total = torch.cumsum(x.flip(axis), axis).flip(axis) if reverse else torch.cumsum(x, axis)
        return total - x if exclusive else total

    return of(call)
