"""Builders for data movement: shapes, cuts, joins, pads, gathers; and constants."""

import math
from typing import Any

import torch
import torch.nn.functional as F

from cortado.onnx.node import Built, Node, always, of, onnx_operator

Tensor = torch.Tensor


@onnx_operator("Shape", "Size")
def shape(node: Node) -> Built:
    sizes = list(node.shape())
    if node.kind == "Size":
        return always(torch.tensor(math.prod(sizes)))
    start, end = node.integer("start", 0), node.attributes.get("end")
    return always(torch.tensor(sizes[start:end], dtype=torch.int64))


@onnx_operator("Reshape", limits="a constant shape")
def reshape(node: Node) -> Built:
    given = node.either("shape", 1) or []
    before, zero = node.shape(), node.flag("allowzero")
    if any(size == 0 and position >= len(before) and not zero for position, size in enumerate(given)):
        node.refuse(f"shape {given} of {list(before)}", "zeros only where the input has a dimension")
    sizes = [before[position] if size == 0 and not zero else size for position, size in enumerate(given)]
    return of(lambda x: x.reshape(sizes))


@onnx_operator("Flatten")
def flatten(node: Node) -> Built:
    axis = node.integer("axis", 1)
    if not -node.rank() <= axis <= node.rank():
        node.refuse(f"axis {axis} of a tensor of rank {node.rank()}", f"one from {-node.rank()} to {node.rank()}")
    split = axis + node.rank() if axis < 0 else axis
    sizes = (math.prod(node.shape()[:split]), math.prod(node.shape()[split:]))
    return of(lambda x: x.reshape(sizes))


@onnx_operator("Squeeze", "Unsqueeze")
def squeeze(node: Node) -> Built:
    given, sizes = node.either("axes", 1), list(node.shape())
    if node.kind == "Squeeze":
        dims = [dim for dim, size in enumerate(sizes) if size == 1] if given is None else node.axes(given)
        if any(sizes[dim] != 1 for dim in dims):
            node.refuse(f"axes {dims} of {sizes}", "dimensions of size 1")
        after = [size for dim, size in enumerate(sizes) if dim not in dims]
    else:
        dims = node.axes(given or [], node.rank() + len(given or []))
        left = iter(sizes)
        after = [1 if dim in dims else next(left) for dim in range(len(sizes) + len(dims))]
    return of(lambda x: x.reshape(after))


@onnx_operator("Transpose")
def transpose(node: Node) -> Built:
    order = node.axes(node.integers("perm", list(reversed(range(node.rank())))))
    return of(lambda x: x.permute(order))


@onnx_operator("Expand", limits="a constant shape")
def expand(node: Node) -> Built:
    given = node.constants(1)
    sizes = torch.broadcast_shapes(node.shape(), tuple(given)) if min(given, default=0) >= 0 else given
    return of(lambda x: x.expand(sizes))


@onnx_operator("Tile", limits="constant repeats")
def tile(node: Node) -> Built:
    times = node.constants(1)
    if len(times) != node.rank():
        node.refuse(f"{len(times)} repeats", f"{node.rank()}")
    return of(lambda x: x.repeat(times))


@onnx_operator("Concat")
def concat(node: Node) -> Built:
    axis, count = node.axis(node.integer("axis")), len(node.inputs)
    return of(lambda *given: torch.cat(given, axis), *range(count))


@onnx_operator("Split", limits="constant sizes")
def split(node: Node) -> Built:
    axis = node.axis(node.integer("axis", 0))
    sizes, whole, parts = node.either("split", 1), node.shape()[axis], node.declared_outputs
    if node.integer("num_outputs", parts) != parts:
        node.refuse(f"num_outputs {node.integer('num_outputs')}", f"{parts}, as many as it has")
    if sizes is None:
        each = -(-whole // parts)
        sizes = [min(each, whole - each * part) for part in range(parts)]
    if sum(sizes) != whole or min(sizes) < 0:
        node.refuse(f"sizes {sizes} of {whole}", "sizes that add up to the dimension")
    return of(lambda x: tuple(torch.split(x, sizes, axis)))


_TO_THE_END = (2**31 - 1, 2**63 - 1)  # in either direction, as onnxruntime has it


@onnx_operator("Slice", limits="constant bounds")
def cut(node: Node) -> Built:
    starts, ends = node.either("starts", 1), node.either("ends", 2)
    if starts is None or ends is None:
        node.refuse("no bounds", "starts and ends")
    dims = node.axes(node.either("axes", 3, range(len(starts))) or [])
    steps = node.constants(4) if node.has(4) else [1] * len(starts)
    if not len(starts) == len(ends) == len(dims) == len(steps):
        node.refuse(f"{len(starts)} starts, {len(ends)} ends, {len(dims)} axes", "equally many of each")
    if len(set(dims)) < len(dims):
        node.refuse(f"axes {dims}", "each axis once")
    slices, flips = [slice(None)] * node.rank(), []
    for dim, start, end, step in zip(dims, starts, ends, steps, strict=True):
        size = node.shape()[dim]
        if step == 0:
            node.refuse("a step of 0", "another number")
        start = max(start + size if start < 0 else start, 0)  # backwards, Python's begins before the first
        if step < 0 and end in _TO_THE_END:
            end = -size - 1
        numbers = range(*slice(start, end, step).indices(size))
        if not numbers:
            slices[dim] = slice(0, 0)
        elif step > 0:
            slices[dim] = slice(numbers.start, numbers.stop, step)
        else:
            slices[dim] = slice(numbers[-1], numbers[0] + 1, -step)
            flips.append(dim)
    places = tuple(slices)
    return of(lambda x: x[places].flip(flips) if flips else x[places])


@onnx_operator(
    "Pad",
    limits="constant widths; constant, reflect, edge or wrap",
    among={"mode": ("constant", "reflect", "edge", "wrap")},
    infinite=("value",),
)
def pad(node: Node) -> Built:
    widths, mode = node.either("pads", 1), node.text("mode", "constant")
    dims = node.axes(node.constants(3)) if node.has(3) else list(range(node.rank()))
    if widths is None or len(widths) != 2 * len(dims):
        node.refuse(f"{len(widths or [])} widths", f"{2 * len(dims)}")
    pairs = [(0, 0)] * node.rank()
    for position, dim in enumerate(dims):
        pairs[dim] = (widths[position], widths[len(dims) + position])
    if any(size + sum(pair) < 0 for size, pair in zip(node.shape(), pairs, strict=True)):
        node.refuse(f"widths {widths} around {list(node.shape())}", "widths that cut off at most the whole tensor")
    value = node.number("value", 0.0) if "value" in node.attributes else node.scalar(2) if node.has(2) else 0.0
    flat = [width for pair in reversed(pairs) for width in pair]
    if mode == "constant":
        number = value if node.value().is_real else int(value)
        return of(lambda x: F.pad(x, flat, value=number))
    return of(_padded_by_numbers(node, pairs, mode))


def _padded_by_numbers(node: Node, pairs: list[tuple[int, int]], mode: str) -> Any:
    """Every row and column by its number in the input: torch's own pads take few ranks."""
    sizes = node.shape()
    inner = [dim for dim, pair in enumerate(pairs) if any(pair)]
    last = inner and inner[0] >= 2 and node.rank() in (3, 4) and min(min(pair) for pair in pairs) >= 0
    small = all(max(pairs[dim]) < sizes[dim] for dim in inner)
    if last and mode in ("reflect", "edge") and (small or mode == "edge"):
        flat = [width for pair in reversed(pairs[2:]) for width in pair]
        return lambda x: F.pad(x, flat, mode={"reflect": "reflect", "edge": "replicate"}[mode])

    numbers = {dim: _numbers(mode, sizes[dim], *pairs[dim]) for dim in inner}

    def call(x: Tensor) -> Tensor:
        for dim in inner:
            x = x.index_select(dim, numbers[dim])
        return x

    return call


def _numbers(mode: str, size: int, before: int, behind: int) -> Tensor:
    """The position in the input of each position around it. Negative widths cut first, as onnxruntime has it."""
    first, size = max(-before, 0), size + min(before, 0) + min(behind, 0)
    found = torch.arange(-max(before, 0), size + max(behind, 0))
    if mode == "edge" or size < 2:
        return first + found.clamp(0, max(size - 1, 0))
    if mode == "wrap":
        return first + found % size
    return first + (size - 1) - ((size - 1) - found % (2 * (size - 1))).abs()


# ---- gathers -------------------------------------------------------------------------------------------------------


def wrapped(positions: Tensor, size: int) -> Tensor:
    """Positions counted from the front: negative ones count from the end."""
    return torch.where(positions < 0, positions + size, positions)


@onnx_operator("Gather")
def gather(node: Node) -> Built:
    axis, positions = node.axis(node.integer("axis", 0)), node.value(1)
    size = node.shape()[axis]
    if positions.data is not None:
        return of(_picked(node, axis, positions.data))
    if node.value(0).data is not None and axis == 0 and node.rank() == 2 and node.value(0).is_real:
        table = torch.nn.Embedding.from_pretrained(node.constant(0))
        return of(lambda at: table(wrapped(at, size)), 1)
    sizes = (*node.shape()[:axis], *positions.shape, *node.shape()[axis + 1 :])
    return of(lambda x, at: torch.index_select(x, axis, wrapped(at, size).reshape(-1)).reshape(sizes), 0, 1)


def _picked(node: Node, axis: int, data: Tensor) -> Any:
    size = node.shape()[axis]
    if data.numel() and not (-size <= int(data.min()) and int(data.max()) < size):
        node.refuse(f"positions up to {int(data.max())} in a dimension of {size}", "positions within the dimension")
    if data.dim() == 0:
        number = int(data) % size
        return lambda x: x.select(axis, number)
    flat = data.reshape(-1).to(torch.int64) % size
    sizes = (*node.shape()[:axis], *data.shape, *node.shape()[axis + 1 :])
    numbers = flat.tolist()
    if numbers and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return lambda x: x.narrow(axis, numbers[0], len(numbers)).reshape(sizes)
    return lambda x: x.index_select(axis, flat).reshape(sizes)


@onnx_operator("GatherElements")
def gather_elements(node: Node) -> Built:
    axis, at = node.axis(node.integer("axis", 0)), node.value(1).data
    size = node.shape()[axis]
    if at is None:
        return of(lambda x, positions: torch.gather(x, axis, wrapped(positions.to(torch.int64), size)), 0, 1)
    positions = at.to(torch.int64) % size
    return of(lambda x: torch.gather(x, axis, positions))


@onnx_operator("ScatterElements", limits="constant positions; no reduction", among={"reduction": ("none",)})
def scatter_elements(node: Node) -> Built:
    axis = node.axis(node.integer("axis", 0))
    positions = node.constant(1).to(torch.int64)
    size = node.shape()[axis]
    if positions.numel() and not (-size <= int(positions.min()) and int(positions.max()) < size):
        node.refuse(
            f"positions up to {int(positions.max())} in a dimension of {size}", "positions within the dimension"
        )
    positions = positions % size
    return of(lambda x, source: torch.scatter(x, axis, positions, source), 0, 2)


@onnx_operator("DepthToSpace", "SpaceToDepth", least={"blocksize": 1}, among={"mode": ("DCR", "CRD")})
def depth_to_space(node: Node) -> Built:
    if node.rank() != 4:
        node.refuse(f"an input of shape {list(node.shape())}", "one of rank 4")
    block, (n, c, h, w), crd = node.integer("blocksize"), node.shape(), node.text("mode", "DCR") == "CRD"
    if node.kind == "SpaceToDepth":
        inner, after = (n, c, h // block, block, w // block, block), (n, c * block * block, h // block, w // block)
        order = (0, 1, 3, 5, 2, 4) if crd else (0, 3, 5, 1, 2, 4)
        return of(lambda x: x.reshape(inner).permute(order).reshape(after))
    if crd:
        return of(torch.nn.PixelShuffle(block))
    inner, after = (n, block, block, c // block**2, h, w), (n, c // block**2, h * block, w * block)
    return of(lambda x: x.reshape(inner).permute(0, 3, 4, 1, 5, 2).reshape(after))


@onnx_operator("OneHot", limits="a constant depth")
def one_hot(node: Node) -> Built:
    depth, rank = int(node.scalar(1)), node.rank() + 1
    if depth < 0 or node.shape(2) != (2,):
        node.refuse(f"a depth of {depth}, values of shape {list(node.shape(2))}", "a depth from 0 on, two values")
    off, on = node.constant(2).tolist()
    axis, dtype = node.axis(node.integer("axis", -1), rank), node.value(2).dtype
    classes = torch.arange(depth).reshape([depth if dim == axis else 1 for dim in range(rank)])

    def call(x: Tensor) -> Tensor:
        own = x.to(torch.int64).unsqueeze(axis)
        found = ((own == classes) | (own == classes - depth)).to(dtype)
        return found if (off, on) == (0, 1) else found * (on - off) + off

    return of(call)


@onnx_operator("Trilu", limits="a constant diagonal")
def triangle(node: Node) -> Built:
    diagonal = int(node.scalar(1)) if node.has(1) else 0
    call = torch.triu if node.flag("upper", True) else torch.tril
    return of(lambda x: call(x, diagonal))


# ---- constants -----------------------------------------------------------------------------------------------------


@onnx_operator("Constant", limits="numbers", infinite=("value_float", "value_floats"))
def constant(node: Node) -> Built:
    for name, value in node.attributes.items():
        if isinstance(value, Tensor):
            return always(value)
        if name in ("value_float", "value_floats"):
            return always(torch.tensor(value, dtype=torch.float32))
        if name in ("value_int", "value_ints"):
            return always(torch.tensor(value, dtype=torch.int64))
    node.refuse(f"attributes {sorted(node.attributes)}", "numbers")


@onnx_operator("ConstantOfShape", limits="a constant shape")
def constant_of_shape(node: Node) -> Built:
    value = node.attributes.get("value", torch.zeros(1))
    if not isinstance(value, Tensor) or value.numel() != 1:
        node.refuse("a value that is not a tensor of one element", "one")
    return always(torch.full(node.constants(0), value.item(), dtype=value.dtype))


@onnx_operator("Range", limits="constant bounds")
def numbers(node: Node) -> Built:
    start, limit, step = (node.scalar(position) for position in range(3))
    if step == 0 or not all(math.isfinite(one) for one in (start, limit, step)):
        node.refuse(f"from {start} to {limit} by {step}", "finite numbers, and a step that is not 0")
    count = max(math.ceil((limit - start) / step), 0)
    return always((torch.arange(count) * node.constant(2) + node.constant(0)).to(node.value(0).dtype).reshape(-1))
