"""What the operators of two tensors share: how shapes that differ are brought together, and rescaling that fits.

The runtime's kernels take equal shapes; add and mul also take one operand that holds a value per channel, laid out as
[pixels, channels, 1, 1] and [1, channels, 1, 1]. Everything else is expanded, in the float graph, before quantization.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch.fx import Node

from cortado.errors import CortadoError, Reject
from cortado.graph import Bound, add_call, describe, shape
from cortado.numerics import Fixed
from cortado.op import ONE_ROW, Call, Lowering, RowRule, Rows
from cortado.ops.conv2d import TO_NCHW, TO_NHWC
from cortado.pointwise import operands, uniform_value

aten = torch.ops.aten
Shape = tuple[int, ...]


class Form(Enum):
    """How an operand's elements meet those of the result."""

    EQUAL = "one for each element"
    CHANNEL = "one for each channel of one NCHW image"
    SUFFIX = "one for each element of the last dimensions"


def padded(sizes: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(sizes)) + sizes


def form_of(sizes: Shape, out: Shape) -> Form | None:
    """The form of an operand; None where it would have to be expanded."""
    if math.prod(sizes) == math.prod(out):
        return Form.EQUAL
    aligned = padded(sizes, len(out))
    inner = [dim for dim, size in enumerate(aligned) if size != 1]
    if not inner:
        return None
    if aligned[inner[0] :] == out[inner[0] :]:
        return Form.SUFFIX
    return Form.CHANNEL if inner == [1] and len(out) >= 3 and out[0] == 1 and aligned[1] == out[1] else None


# ---- in the float graph --------------------------------------------------------------------------------------


def broadcast(bound: Bound, left: Node, right: Node, by_channel: bool) -> tuple[Node, Node]:
    """The two operands, expanded where no kernel could take them as they are."""
    out = shape(bound.node)
    forms = {node: form_of(shape(node), out) for node in (left, right)}
    if uniform_value(left) is not None or uniform_value(right) is not None:
        return _alone(bound, left, out), _alone(bound, right, out)
    if not by_channel:
        return _expanded(bound, left, out), _expanded(bound, right, out)
    if Form.EQUAL not in forms.values():  # an outer product: one of them becomes the full one
        full = left if forms[right] is not None else right
        left, right = (_expanded(bound, node, out) if node is full else node for node in (left, right))
    return _to_channels(bound, left, out), _to_channels(bound, right, out)


def _expanded(bound: Bound, node: Node, out: Shape) -> Node:
    equal = form_of(shape(node), out) is Form.EQUAL
    return node if equal else add_call(bound.node, aten.expand.default, node, list(out))


def _alone(bound: Bound, node: Node, out: Shape) -> Node:
    """An operand beside a single constant number: its own shape must be the result's for it to be a table."""
    if uniform_value(node) is not None or shape(node) == out:
        return node
    if form_of(shape(node), out) is Form.EQUAL:
        return add_call(bound.node, aten.reshape.default, node, list(out))
    return _expanded(bound, node, out)


def _to_channels(bound: Bound, node: Node, out: Shape) -> Node:
    """A single computed number is spread over the channels: a kernel then makes few long runs, not many of one."""
    if form_of(shape(node), out) is not None:
        return node
    if math.prod(shape(node)) > 1:
        return _expanded(bound, node, out)
    keep = 1 if len(out) >= 3 and out[0] == 1 and out[1] > 1 else len(out) - 1
    sizes = [size if dim == keep else 1 for dim, size in enumerate(out)]
    if math.prod(sizes) == 1:
        return _expanded(bound, node, out)
    return add_call(bound.node, aten.expand.default, node, sizes)


def rewritten(bound: Bound, target: Any, by_channel: bool, **rest: Any) -> Node | None:
    """target(self, other) with its operands brought together; None where nothing changes."""
    left, right = bound["self"], bound["other"]
    if not (isinstance(left, Node) and isinstance(right, Node)):
        return None if target == bound.node.target else add_call(bound.node, target, left, right, **rest)
    new = broadcast(bound, left, right, by_channel)
    if new == (left, right) and target == bound.node.target:
        return None
    return add_call(bound.node, target, *new, **rest)


def check(bound: Bound, by_channel: bool) -> Reject | None:
    """Why no kernel takes these two operands."""
    name = bound.node.target.__name__.split(".")[0] if hasattr(bound.node.target, "__name__") else "it"
    if len(operands(bound.node)) != 2:
        return Reject(f"{name} with a single tensor is part of a pointwise function that could not be made a table")
    if any(node.meta["val"].dtype not in (torch.float32, torch.int8) for node in (bound["self"], bound["other"])):
        return Reject(f"{name} of tensors that are not float32")
    forms = [form_of(shape(bound[side]), shape(bound.node)) for side in ("self", "other")]
    if Form.EQUAL not in forms or None in forms or (not by_channel and forms != [Form.EQUAL] * 2):
        shapes = " and ".join(str(list(shape(bound[side]))) for side in ("self", "other"))
        return Reject(f"{name} of shapes {shapes} needs an explicit expand")
    return None


# ---- lowering ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operands:
    """Two operands as a kernel takes them, the one with all elements first, and the way back to the result's shape."""

    first: Node
    second: Node
    swapped: bool
    restore: Callable[[Node], Node]


def prepare(lowering: Lowering) -> Operands:
    """Equal shapes as they are; a channel operand as [pixels, channels, 1, 1] and [1, channels, 1, 1]."""
    left, right, out = lowering.node("self"), lowering.node("other"), shape(lowering.bound.node)
    forms = [form_of(shape(node), out) for node in (left, right)]
    if forms == [Form.EQUAL, Form.EQUAL]:
        return Operands(lowering.view(left, out), lowering.view(right, out), False, lambda node: node)
    swapped = forms[0] is not Form.EQUAL
    full, part = (right, left) if swapped else (left, right)
    if Form.CHANNEL in forms:
        return _by_channel(lowering, full, part, swapped, out)
    channels = math.prod(shape(part))
    first = lowering.view(full, (math.prod(out) // channels, channels, 1, 1))
    second = lowering.view(part, (1, channels, 1, 1))
    return Operands(first, second, swapped, lambda node: lowering.view(node, out))


def _by_channel(lowering: Lowering, full: Node, part: Node, swapped: bool, out: Shape) -> Operands:
    """NHWC around the call: the transposes meet those of the convolutions beside it."""
    channels = out[1]
    height, width = (out[2], out[3]) if len(out) == 4 else (1, math.prod(out[2:]))
    image = lowering.transpose(lowering.view(full, (1, channels, height, width)), TO_NHWC)
    first = lowering.view(image, (height * width, channels, 1, 1))

    def restore(node: Node) -> Node:
        nhwc = lowering.view(node, (1, height, width, channels))
        return lowering.view(lowering.transpose(nhwc, TO_NCHW), out)

    return Operands(first, lowering.view(part, (1, channels, 1, 1)), swapped, restore)


def flat_rank4(lowering: Lowering, node: Node) -> Node:
    """CMSIS-NN's minimum and maximum look at the last four dimensions only."""
    out = shape(lowering.bound.node)
    return lowering.view(node, out if len(out) <= 4 else (math.prod(out),))


def fixed(lowering: Lowering, factor: float, largest_shift: int) -> Fixed:
    """A factor whose shift leaves the accumulator within 30 bits."""
    found = Fixed.of(factor) if factor < 2.0**30 else None
    if found is None or found.shift > largest_shift:
        raise CortadoError(
            f"{describe(lowering.bound.node)}: its output was calibrated with a scale of {lowering.out.scale:g}, too small "
            f"for operands of scale {lowering.q('self').scale:g} and {lowering.q('other').scale:g} to be told apart from "
            "zero in 32 bits; the operands nearly cancel or the calibration inputs leave it at zero: use calibration "
            "inputs for which this output is not (almost) zero everywhere"
        )
    return found


# ---- the C side ----------------------------------------------------------------------------------------------


def by_channel(call: Call) -> int | None:
    """The number of channels where `other` holds one value per channel; None for equal shapes."""
    left, right = call.shape("self"), call.shape("other")
    return None if left == right else math.prod(right)


def rows(call: Call) -> Rows | None:
    """Elementwise; a channel operand is read whole by every row of an NHWC image."""
    if by_channel(call) is None:
        return Rows((ONE_ROW, ONE_ROW), pixelwise=True, elementwise=True)
    if call.shape("other")[-1] == by_channel(call):
        return Rows((ONE_ROW, RowRule(stride=0)), pixelwise=True, elementwise=True)
    return None


def output_shape(call: Call) -> Shape:
    return tuple(torch.broadcast_shapes(call.shape("self"), call.shape("other")))


def draw_operands(draw: Any, by_channel: bool) -> dict[str, Any]:
    """Two int8 tensors: equal shapes of any rank, or one with a value per channel in either layout."""
    from hypothesis import strategies as st

    from cortado import sampling

    seed = draw(sampling.SEEDS)
    kind = draw(st.sampled_from(["equal", "equal", "pixels", "image"])) if by_channel else "equal"
    channels, pixels = draw(sampling.CHANNELS), draw(st.integers(1, 9))
    sizes, other = {
        "equal": ((*draw(st.lists(st.integers(1, 4), max_size=3)), channels),) * 2,
        "pixels": ((pixels, channels, 1, 1), (1, channels, 1, 1)),
        "image": ((1, draw(st.integers(1, 3)), pixels, channels), (1, 1, 1, channels)),
    }[kind]
    return {"self": sampling.codes(seed, sizes), "other": sampling.codes(seed + 1, other)}
