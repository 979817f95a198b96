"""Shared parts of binary operators: broadcasting of different shapes, and requantization factors that fit.

Kernels take equal shapes; add and mul also take an operand that holds one value for each channel of the last dimension,
which the runtime expects as [pixels, channels, 1, 1] and [1, channels, 1, 1]. Everything else is expanded, in the float
graph, before quantization.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT8, Element
from cortado.base.errors import CortadoError, Reject
from cortado.base.numerics import Fixed
from cortado.ir import sampling
from cortado.ir.facts import dtype
from cortado.ir.graph import TO_NCHW, TO_NHWC, Bound, add_call, describe, shape
from cortado.ir.kernel import ONE_ROW, RowRule, Rows
from cortado.ir.matching import patterns_of
from cortado.ir.op import Call, ElementOf, Lowering, Operator, PteWriter
from cortado.ir.roles import Activation, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Work, loops
from cortado.ops.elementwise.pointwise import is_pointwise, uniform_value
from cortado.ops.float_graph import add_permute, add_view
from cortado.ops.loops import ELEMENTS as ONE_BY_ONE
from cortado.ops.move.pad import looks_channels_last
from cortado.ops.move.reshape import VIEW

aten = torch.ops.aten
Shape = tuple[int, ...]


class Form(Enum):
    """How an operand is broadcast to the result."""

    EQUAL = "one for each element"
    CHANNEL = "one for each channel of one NCHW image"
    SUFFIX = "one for each element of the last dimensions"


def padded(sizes: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(sizes)) + sizes


def form_of(sizes: Shape, out: Shape) -> Form | None:
    """Returns the form of an operand; None if it has to be expanded."""
    if math.prod(sizes) == math.prod(out):
        return Form.EQUAL
    aligned = padded(sizes, len(out))
    inner = [dim for dim, size in enumerate(aligned) if size != 1]
    if not inner:
        return None
    if aligned[inner[0] :] == out[inner[0] :]:
        return Form.SUFFIX
    return Form.CHANNEL if inner == [1] and len(out) >= 3 and out[0] == 1 and aligned[1] == out[1] else None


def is_image(node: Node) -> bool:
    """Whether a tensor is the result of convolutions or pools, and so lies in memory as NHWC."""
    while is_pointwise(node):
        node = node.all_input_nodes[0]
    made = any(pattern.images for pattern in patterns_of(node.target))
    return len(shape(node)) == 4 and (node.op == "placeholder" or made)


# ---- in the float graph --------------------------------------------------------------------------------------


def broadcast(bound: Bound, left: Node, right: Node, by_channel: bool) -> tuple[Node, Node]:
    """Returns the two operands, expanded where no kernel could take them otherwise."""
    out = tuple(torch.broadcast_shapes(shape(left), shape(right)))
    forms = {node: form_of(shape(node), out) for node in (left, right)}
    if uniform_value(left) is not None or uniform_value(right) is not None:
        return _alone(bound, left, out), _alone(bound, right, out)
    if not by_channel:
        return _expanded(bound, left, out), _expanded(bound, right, out)
    if Form.EQUAL not in forms.values():  # an outer product: one operand is expanded to the full shape
        full = left if forms[right] is not None else right
        left, right = (_expanded(bound, node, out) if node is full else node for node in (left, right))
    if is_image(left) or is_image(right):
        left, right = (_across_channels(bound, node, out) for node in (left, right))
    return _to_channels(bound, left, out), _to_channels(bound, right, out)


def _across_channels(bound: Bound, node: Node, out: Shape) -> Node:
    """Expands one value per pixel to all its channels: a short run of copies is cheaper than transposing the image
    twice."""
    across = form_of(shape(node), out) is Form.SUFFIX and padded(shape(node), len(out))[1] != out[1]
    return _expanded(bound, node, out) if across else node


def _expanded(bound: Bound, node: Node, out: Shape) -> Node:
    """Expands an operand to the full shape; for images pixel by pixel, in the order of memory."""
    if form_of(shape(node), out) is Form.EQUAL:
        return node
    if len(out) != 4 or not any(is_image(operand) for operand in bound.node.all_input_nodes):
        return add_call(bound.node, aten.expand.default, node, list(out))
    nhwc = add_permute(bound.node, add_view(bound.node, node, padded(shape(node), 4)), TO_NHWC)
    copies = add_call(bound.node, aten.expand.default, nhwc, [out[dim] for dim in TO_NHWC])
    return add_permute(bound.node, copies, TO_NCHW)


def broadcast_to(bound: Bound, node: Node, out: Shape) -> Node:
    """Reshapes an operand to the shape of the result, and expands it if it has fewer values."""
    if shape(node) == out:
        return node
    if form_of(shape(node), out) is Form.EQUAL:
        return add_call(bound.node, aten.reshape.default, node, list(out))
    return _expanded(bound, node, out)


def _alone(bound: Bound, node: Node, out: Shape) -> Node:
    """Gives the tensor operand of a call with a single constant number the result's shape, which makes the call a
    table."""
    if uniform_value(node) is not None or shape(node) == out:
        return node
    if form_of(shape(node), out) is Form.EQUAL:
        return add_call(bound.node, aten.reshape.default, node, list(out))
    return _expanded(bound, node, out)


def _to_channels(bound: Bound, node: Node, out: Shape) -> Node:
    """Broadcasts a single computed number over the channels: a kernel then runs a few long runs, not many of length
    one."""
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
    """Returns target(self, other) with its operands broadcast; None if nothing changes."""
    left, right = bound["self"], bound["other"]
    if not (isinstance(left, Node) and isinstance(right, Node)):
        return None if target == bound.node.target else add_call(bound.node, target, left, right, **rest)
    new = broadcast(bound, left, right, by_channel)
    if new == (left, right) and target == bound.node.target:
        return None
    return add_call(bound.node, target, *new, **rest)


def check(bound: Bound, by_channel: bool) -> Reject | None:
    """Returns the reason why no kernel takes these two operands."""
    name = bound.node.target.__name__.split(".")[0] if hasattr(bound.node.target, "__name__") else "it"
    sides = (bound["self"], bound["other"])
    if not all(isinstance(side, Node) and uniform_value(side) is None for side in sides):
        return Reject(
            f"{name} with a single tensor is part of a pointwise function that could not be turned into a table"
        )
    if any(dtype(node) not in (torch.float32, torch.int8, torch.int16) for node in sides):
        return Reject(f"{name} of tensors that are not float32")
    forms = [form_of(shape(bound[side]), shape(bound.node)) for side in ("self", "other")]
    if Form.EQUAL not in forms or None in forms or (not by_channel and forms != [Form.EQUAL] * 2):
        shapes = " and ".join(str(list(shape(bound[side]))) for side in ("self", "other"))
        return Reject(f"{name} of shapes {shapes} needs an explicit expand")
    return None


def of_one_element(bound: Bound) -> Quantization:
    """Quantizes both operands and the result with the wanted element."""
    kind = bound.element
    return Quantization({"self": Activation(kind), "other": Activation(kind)}, Activation(kind))


# ---- lowering ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operands:
    """Two operands as a kernel takes them, the full one first, and a function that restores the result's shape."""

    first: Node
    second: Node
    swapped: bool
    restore: Callable[[Node], Node]


def prepare(lowering: Lowering) -> Operands:
    """Prepares operands: equal shapes unchanged; with a channel operand as NHWC images or as rows, channels last."""
    out = shape(lowering.bound.node)
    forms = {name: form_of(shape(lowering.node(name)), out) for name in ("self", "other")}
    if all(form is Form.EQUAL for form in forms.values()):
        return Operands(viewed(lowering, "self", out), viewed(lowering, "other", out), False, lambda node: node)
    full, part = ("self", "other") if forms["self"] is Form.EQUAL else ("other", "self")
    channels = math.prod(shape(lowering.node(part)))
    if forms[part] is Form.CHANNEL:
        first, restore = _nhwc(lowering, full, out)
        return Operands(first, viewed(lowering, part, (1, 1, 1, channels)), full == "other", restore)
    first = viewed(lowering, full, (math.prod(out) // channels, channels))
    second = viewed(lowering, part, (1, channels))
    return Operands(first, second, full == "other", lambda node: lowering.view(node, out))


def viewed(lowering: Lowering, name: str, sizes: Shape) -> Node:
    """Returns an operand under another shape; a constant is stored with that shape."""
    data = lowering.data(name)
    if data is None or tuple(data.shape) == sizes:
        return lowering.view(lowering.node(name), sizes)
    return lowering.constant(name, data.reshape(sizes))


def _nhwc(lowering: Lowering, name: str, out: Shape) -> tuple[Node, Callable[[Node], Node]]:
    """Returns one NCHW image as NHWC, and a function that reverts it: the transposes cancel with those of
    convolutions."""
    channels = out[1]
    height, width = (out[2], out[3]) if len(out) == 4 else (1, math.prod(out[2:]))
    image = lowering.transpose(viewed(lowering, name, (1, channels, height, width)), TO_NHWC)
    return image, lambda node: lowering.view(lowering.transpose(node, TO_NCHW), out)


def flat_rank4(lowering: Lowering, node: Node) -> Node:
    """Returns a view of at most four dimensions: CMSIS-NN's minimum and maximum read only the last four."""
    out = shape(lowering.bound.node)
    return lowering.view(node, out if len(out) <= 4 else (math.prod(out),))


def fixed(lowering: Lowering, factor: float, largest_shift: int) -> Fixed:
    """Returns a factor whose shift keeps the accumulator within 30 bits."""
    found = Fixed.of(factor) if factor < 2.0**30 else None
    if found is None or found.shift > largest_shift:
        left, right = lowering.q("self").scale, lowering.q("other").scale
        raise CortadoError(
            f"{describe(lowering.bound.node)}: operands of scale {left:g} and {right:g} give an output of scale "
            f"{lowering.out.scale:g}, which exceeds 32 bits. The operands nearly cancel, or the output is almost zero "
            "for every calibration input: calibrate with inputs for which it is not"
        )
    return found


# ---- the two artifacts ---------------------------------------------------------------------------------------


def in_pte(operator: Operator, arguments: Mapping[str, Any], add: PteWriter) -> Node:
    """Writes the call with views: the runtime broadcasts only along dimension 1 of rank 4 tensors."""
    sizes, channels = shape(arguments["self"]), math.prod(shape(arguments["other"]))
    if sizes == shape(arguments["other"]):
        return add(operator, **arguments)
    first = add(VIEW, self=arguments["self"], size=[math.prod(sizes) // channels, channels, 1, 1])
    second = add(VIEW, self=arguments["other"], size=[1, channels, 1, 1])
    return add(VIEW, self=add(operator, **{**arguments, "self": first, "other": second}), size=list(sizes))


def pte_limit(call: Call) -> str | None:
    """Returns the reason if the runtime's kernels can't broadcast these operands."""
    mine, other = call.shape("self"), call.shape("other")
    one, every = sorted((mine, other), key=math.prod)
    per_channel = len(mine) == len(other) == 4 and one[1] == every[1] == math.prod(one) and looks_channels_last(every)
    if mine == other or per_channel:
        return None
    return f"takes equal shapes, or one value per element of dimension 1, found {list(mine)} and {list(other)}"


def by_channel(call: Call) -> int | None:
    """Returns the number of channels if `other` holds one value per channel; None for equal shapes."""
    left, right = call.shape("self"), call.shape("other")
    return None if left == right else math.prod(right)


def is_by_channel(call: Call) -> bool:
    return by_channel(call) is not None


def channels(call: Call) -> tuple[int, ...]:
    """Returns the number of channels as kernels get it, as an argument after their spans."""
    return (by_channel(call) or 1,)


def rows(call: Call) -> Rows:
    """Returns the rows of an elementwise kernel; every row reads a channel operand whole."""
    second = ONE_ROW if by_channel(call) is None else RowRule(stride=0)
    return Rows((ONE_ROW, second), pixelwise=True, elementwise=True)


ELEMENTS = Rows((ONE_ROW, ONE_ROW), pixelwise=True, elementwise=True)
"""Of operands of one shape."""


def output_shape(call: Call) -> Shape:
    return tuple(torch.broadcast_shapes(call.shape("self"), call.shape("other")))


def operator_on_two(**record: Any) -> Operator:
    """Makes an elementwise operator on two tensors of one element."""
    return Operator(
        shape=output_shape,
        rows=rows,
        element=ElementOf(("self", "other")),
        tensors=("self", "other"),
        relayout=lambda arguments, perm: arguments,
        **record,
    )


def work(channels: int | None, lowest: int) -> Work:
    """Counts element by element; with a channel operand also its preparation, channel by channel."""
    terms = "calls outputs cut uncut" if channels is None else "calls calls*channels outputs cut uncut"
    return loops(terms, lowest, channels=channels or 0)


def wide_work(call: Call) -> Work:
    """Returns the work on 16-bit codes: one element at a time; with a channel operand, a loop over the channels of each
    pixel."""
    channels = by_channel(call)
    if channels is None:
        return ONE_BY_ONE
    return Work(("calls", "pixels", "outputs"), lambda calls: {"pixels": calls.spans / channels})


def draw_operands(draw: CaseDraw, by_channel: bool, element: Element = INT8) -> dict[str, Any]:
    """Draws two tensors of codes: equal shapes of any rank, or one with a value per channel."""
    seed = draw.seed()
    kind = draw.pick(["equal", "equal", "rows", "image"]) if by_channel else "equal"
    channels, pixels = draw.channels(), draw.whole(1, 9)
    sizes, other = {
        "equal": ((*draw.sizes(4, 0, 3), channels),) * 2,
        "rows": ((pixels, channels), (1, channels)),
        "image": ((1, draw.whole(1, 3), pixels, channels), (1, 1, 1, channels)),
    }[kind]
    both = (*element.codes, element.torch_dtype)
    return {"self": sampling.codes(seed, sizes, *both), "other": sampling.codes(seed + 1, other, *both)}
