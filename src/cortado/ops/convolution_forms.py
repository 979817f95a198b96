"""Other spellings of convolutions: 1-D ones, unbatched ones, padding="same", zeros padded in front.

Each becomes aten.conv2d on a batch of images; a 1-D signal is an image of height 1.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from cortado.ir.graph import Bound, add_call, bind, is_call, shape
from cortado.ir.op import Rewrite
from cortado.ops._float import add_constant, add_view, constant_data, height_one, is_constant, pair

aten = torch.ops.aten


@dataclass(frozen=True)
class Pads:
    """Zeros around the height and the width of an image."""

    top: int
    bottom: int
    left: int
    right: int

    def __add__(self, other: "Pads") -> "Pads":
        return Pads(self.top + other.top, self.bottom + other.bottom, self.left + other.left, self.right + other.right)

    @property
    def even(self) -> bool:
        return self.top == self.bottom and self.left == self.right

    def split(self, reach: list[int]) -> tuple[list[int], "Pads"]:
        """(padding of a convolution, what is left): each window keeps a tap inside the image."""
        vertical, horizontal = min(self.top, self.bottom, reach[0]), min(self.left, self.right, reach[1])
        rest = self + Pads(-vertical, -vertical, -horizontal, -horizontal)
        return [vertical, horizontal], rest


def _pads(padding: Any, reach: list[int]) -> Pads:
    """Padding in numbers. "same" splits an odd total so that the end gets one more, as PyTorch does."""
    if padding == "valid":
        return Pads(0, 0, 0, 0)
    if padding == "same":
        before, after = [total // 2 for total in reach], [total - total // 2 for total in reach]
        return Pads(before[0], after[0], before[1], after[1])
    vertical, horizontal = pair(padding)
    return Pads(vertical, vertical, horizontal, horizontal)


def zero_padding(node: Node) -> Pads | None:
    """What a node adds around height and width, if it pads with zeros there and nowhere else."""
    if not is_call(node, aten.pad.default, aten.constant_pad_nd.default):
        return None
    bound = bind(node)
    widths = [int(width) for width in bound["pad"]]
    left, right, top, bottom, *outer = widths + [0] * (4 - len(widths))
    zeros = bound.get("mode", "constant") == "constant" and not bound.get("value")
    if not zeros or any(outer) or min(left, right, top, bottom) < 0:
        return None
    return Pads(top, bottom, left, right)


def pad_images(like: Node, source: Node, pads: Pads) -> Node:
    if pads == Pads(0, 0, 0, 0):
        return source
    return add_call(like, aten.constant_pad_nd.default, source, [pads.left, pads.right, pads.top, pads.bottom], 0.0)


def images(like: Node, source: Node, spatial: int) -> Node:
    """The input as [N, C, H, W]: a batch of one if it has none, height 1 for a signal."""
    sizes = list(shape(source))
    batched = sizes if len(sizes) == spatial + 2 else [1, *sizes]
    return add_view(like, source, batched if spatial == 2 else [*batched[:2], 1, batched[2]])


def _conv2d(bound: Bound, source: Node, weight: Node, spatial: int) -> tuple[Any, ...]:
    """The arguments of a conv2d of a batch of images; where its padding differs from side to side, the rest goes in
    front."""
    wide = (lambda value, fill: pair(value)) if spatial == 2 else height_one
    stride, dilation = wide(bound["stride"], 1), wide(bound["dilation"], 1)
    padding = bound["padding"] if isinstance(bound["padding"], str) else wide(bound["padding"], 0)
    reach = [d * (k - 1) for k, d in zip(shape(weight)[2:], dilation, strict=True)]
    pads, before = _pads(padding, reach), zero_padding(source)
    if before is not None and (before + pads).even:
        pads, source = before + pads, source.all_input_nodes[0]
    own, rest = pads.split(reach)
    source = pad_images(bound.node, source, rest)
    return source, weight, bound["bias"], stride, own, dilation, int(bound["groups"])


def to_conv2d(bound: Bound) -> Node | None:
    """A conv2d of a batch, its padding in numbers, zeros in front of it folded in where they are even."""
    arguments = _conv2d(bound, images(bound.node, bound["input"], 2), bound["weight"], 2)
    if bound.node.target == aten.conv2d.default and arguments == tuple(bound.values.values()):
        return None  # nothing to change
    return add_view(bound.node, add_call(bound.node, aten.conv2d.default, *arguments), shape(bound.node))


def conv1d_to_conv2d(bound: Bound) -> Node | None:
    """A signal is an image of height 1."""
    weight = bound["weight"]
    if not is_constant(weight):
        return None
    wide = add_constant(bound.node, "weight", constant_data(weight).unsqueeze(2))
    arguments = _conv2d(bound, images(bound.node, bound["input"], 1), wide, 1)
    return add_view(bound.node, add_call(bound.node, aten.conv2d.default, *arguments), shape(bound.node))


CONV2D_REWRITE = Rewrite(aten=(aten.conv2d.default, aten.conv2d.padding), rewrite=to_conv2d)
CONV1D_REWRITE = Rewrite(aten=(aten.conv1d.default, aten.conv1d.padding), rewrite=conv1d_to_conv2d)
