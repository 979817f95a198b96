"""out = the input with a border of one value; reflected, replicated and circular borders select elements of the
input."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import element_of
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor, int_list
from cortado.base.target import CortexMTargetConfig
from cortado.ir.c_call import Bytes, Operand, Row
from cortado.ir.facts import holds_integers
from cortado.ir.graph import Bound, shape
from cortado.ir.kernel import Field, RowRule, Rows
from cortado.ir.kernel_table import KernelRow, KernelTable, of_size
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern, PteWriter
from cortado.ir.roles import Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Calls, Quantities, Work
from cortado.ops.move.index_select import pick
from cortado.ops.move.movement import relayout_lists, shared, six
from cortado.ops.move.reshape import VIEW
from cortado.ops.move.slice import take

aten = torch.ops.aten
PTE_MAX_RANK = 4
LONGEST_BORDER = 255  # rows above an image that the row rule of a step can count


def reference(*, input: Tensor, pre_pad: list[int], post_pad: list[int], pad_value: int) -> Tensor:
    if input.is_floating_point():  # pads the bit patterns
        bits = reference(input=input.view(torch.int32), pre_pad=pre_pad, post_pad=post_pad, pad_value=pad_value)
        return bits.view(torch.float32)
    before, after = (own(widths, input.dim()) for widths in (pre_pad, post_pad))
    sides = [width for dim in reversed(range(input.dim())) for width in (before[dim], after[dim])]
    return torch.nn.functional.pad(input, sides, value=pad_value).contiguous()


def own(widths: Sequence[int], rank: int) -> Sequence[int]:
    """Returns one width for each dimension. In the .pte these are preceded by zeros: see in_pte."""
    return widths[len(widths) - rank :]


def dimensions(call: Call) -> list[tuple[int, int, int]]:
    """Returns (size, before, after) of each dimension."""
    sizes = call.shape("input")
    before, after = (own(call[name], len(sizes)) for name in ("pre_pad", "post_pad"))
    return list(zip(sizes, before, after, strict=True))


def output_shape(call: Call) -> tuple[int, ...]:
    return tuple(map(sum, dimensions(call)))


# ---- from aten -----------------------------------------------------------------------------------------------


def mode(bound: Bound) -> str:
    """Returns the mode: constant, reflect, replicate or circular."""
    name = str(bound.node.target)
    if "reflection" in name:
        return "reflect"
    return "replicate" if "replication" in name else str(bound.get("mode", "constant"))


def sides(bound: Bound) -> list[tuple[int, int]]:
    """Returns (before, after) for every dimension; a negative border crops. PyTorch counts from the last dimension."""
    widths = int_list(bound.get("pad") or bound.get("padding"))
    pairs = list(zip(widths[::2], widths[1::2], strict=True))[::-1]
    return [(0, 0)] * (len(shape(bound["self"])) - len(pairs)) + pairs


def match(bound: Bound) -> Quantization | Reject:
    value = bound.get("value")
    if value is not None and not math.isfinite(value) and not bound.element.floating:
        return Reject(f"pads with {value}, which has no int8 code; pad with a finite number")
    return shared(bound)


def lower(lowering: Lowering) -> Node:
    bound, node = lowering.bound, lowering.node("self")
    widths, how = sides(bound), mode(bound)
    if how != "constant":
        for dim, (before, after) in enumerate(widths):
            node = pick(lowering, node, dim, border_index(how, shape(node)[dim], before, after))
        return node
    for dim, (before, after) in enumerate(widths):
        size = shape(node)[dim]
        node = take(lowering, node, dim, max(0, -before), size + min(0, after))
    number = bound["value"] or 0.0
    if bound.element.floating and not holds_integers(node):
        value = int(torch.tensor(float(number)).view(torch.int32))
    else:
        value = int(number) if holds_integers(node) else lowering.out.quantize(float(number))
    return surround(lowering, node, [(max(0, before), max(0, after)) for before, after in widths], value)


def border_index(how: str, size: int, before: int, after: int) -> list[int]:
    """Returns the input position for every output position of one dimension."""
    positions = range(-before, size + after)
    if how == "replicate":
        return [min(max(position, 0), size - 1) for position in positions]
    if how == "circular":
        return [position % size for position in positions]
    last = size - 1
    return [last - abs(last - abs(position)) for position in positions]


def surround(lowering: Lowering, node: Node, widths: list[tuple[int, int]], value: int) -> Node:
    """Adds a border of one code. The kernels take four dimensions; of more, each is padded separately, viewed as one of
    three."""
    if not any(map(any, widths)):
        return node
    if len(widths) <= PTE_MAX_RANK:
        before, after = [pair[0] for pair in widths], [pair[1] for pair in widths]
        return lowering.call(PAD, input=node, pre_pad=before, post_pad=after, pad_value=value)
    for dim, (before_dim, after_dim) in enumerate(widths):
        sizes = shape(node)
        flat = lowering.view(node, (math.prod(sizes[:dim]), sizes[dim], math.prod(sizes[dim + 1 :])))
        flat = surround(lowering, flat, [(0, 0), (before_dim, after_dim), (0, 0)], value)
        node = lowering.view(flat, (*sizes[:dim], shape(flat)[1], *sizes[dim + 1 :]))
    return node


# ---- the .pte ------------------------------------------------------------------------------------------------


def looks_channels_last(sizes: Sequence[int]) -> bool:
    """Whether ExecuTorch's runtime mistakes a contiguous tensor for a channels-last one, and so permutes its sizes."""
    return len(sizes) == 4 and (sizes[1] == 1 or sizes[2] == sizes[3] == 1)


def in_pte(arguments: Mapping[str, Any], add: PteWriter, target: CortexMTargetConfig) -> Node:
    """Writes the padding. The runtime reads four widths whatever the rank, and guesses the layout of four dimensions,
    but not of three. Unambiguous shapes are padded directly, others as [channels, height, width], or the last two
    dimensions and then the first two, with the other two merged."""
    source, value = arguments["input"], arguments["pad_value"]
    sizes = shape(source)
    widths = list(zip(*(own(arguments[name], len(sizes)) for name in ("pre_pad", "post_pad")), strict=True))

    def pad(node: Node, widths: Sequence[tuple[int, int]]) -> Node:
        if not any(map(any, widths)):
            return node
        lists = ([0] * (PTE_MAX_RANK - len(widths)) + [pair[side] for pair in widths] for side in (0, 1))
        before, after = lists
        return add(PAD, input=node, pre_pad=before, post_pad=after, pad_value=value)

    def view(node: Node, *sizes: int) -> Node:
        return add(VIEW, self=node, size=list(sizes))

    if not looks_channels_last(sizes):
        return pad(source, widths)
    images, channels, height, width = sizes
    out = [size + before + after for size, (before, after) in zip(sizes, widths, strict=True)]
    if images == out[0] == 1:
        return view(pad(view(source, channels, height, width), widths[1:]), *out)
    inner = pad(view(source, images * channels, height, width), [(0, 0), *widths[2:]])
    return view(pad(view(inner, images, channels, out[2] * out[3]), [*widths[:2], (0, 0)]), *out)


def pte_limit(call: Call) -> str | None:
    rank = len(call.shape("input"))
    return f"takes at most rank {PTE_MAX_RANK}, found rank {rank}" if rank > PTE_MAX_RANK else None


# ---- the C kernel --------------------------------------------------------------------------------------------


def rows(call: Call) -> Rows | None:
    """Runs row by row unless images are added: a row above or below the image has no input row."""
    before, after = call["pre_pad"], call["post_pad"]
    if len(before) != 4 or before[0] or after[0] or before[1] > LONGEST_BORDER:
        return None
    return Rows((RowRule(pad=before[1]),))


def _runs(call: Call) -> list[tuple[int, int, int]]:
    """Returns size and padding of each dimension, with as few dimensions as possible."""
    dims = dimensions(call)[0 if rows(call) is None else 2 :]
    while len(dims) > 1 and dims[-1][1:] == (0, 0):  # only whole pixels are padded: merge for longer runs
        size = dims.pop()[0]
        dims[-1] = (dims[-1][0] * size, dims[-1][1] * size, dims[-1][2] * size)
    return dims


def _fields(call: Call) -> dict[str, Field]:
    sizes, before, after = zip(*_runs(call), strict=True)
    lists = {"shape": six(sizes, 1), "before": six(before, 0), "after": six(after, 0)}
    return {"rank": len(sizes), **lists, "value": call["pad_value"]}


def _call_work(call: Call) -> Work:
    dims = _runs(call)
    return _work(len(dims), sum(dims[-1]), call.element.bytes)


_BYTES = KernelRow(
    "pad_s8",
    None,
    fits=lambda call: call.element.bytes == 1,
    arguments=(Operand.LAYER, Bytes(Row(0)), Bytes(Operand.OUT)),
    struct="cortado_pad_t",
    fields=_fields,
    work=_call_work,
)
KERNELS = KernelTable((_BYTES, of_size(_BYTES, "pad_wide")))


def _work(rank: int, run: int, item: int) -> Work:
    """Counts runs of the innermost dimension; for each, every dimension is checked for being inside. Values of several
    bytes that are padding are written one by one."""
    terms = ("calls", "calls*rank", "runs", "runs*rank", "outputs", "read_bytes", *(("filled",) if item > 1 else ()))

    def quantities(calls: Calls) -> Quantities:
        read = calls.read_bytes * (1 - calls.outside / max(calls.calls, 1))  # rows above the image read nothing
        filled = max(calls.outputs - read, 0) / item
        return {"rank": rank, "runs": calls.outputs / (run * item), "filled": filled}

    return Work(terms, quantities)


def samples(draw: CaseDraw) -> dict[str, Any]:
    rank = draw.pick([1, 2, 3, 4, 4, 4])
    shape = tuple(draw.whole(1, 6) for _ in range(rank))
    before, after = ([draw.pick([0, 0, 1, 2, 5]) for _ in range(rank)] for _ in range(2))
    if rank == 4 and draw.flag():
        before[0] = after[0] = 0
    given = draw.codes(shape)
    return {
        "input": given,
        "pre_pad": before,
        "post_pad": after,
        "pad_value": draw.whole(*element_of(given.dtype).codes),
    }


PAD = Operator(
    name="cortex_m::pad",
    summary="pad with a constant: a border around any dimensions",
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    rows=rows,
    element=ElementOf(("input",)),
    relayout=relayout_lists("pre_pad", "post_pad"),
    pte=in_pte,
    pte_limit=pte_limit,
    by_channel=True,
    constraints=f"finite values; with more than {PTE_MAX_RANK} dimensions, each is padded separately",
    samples=samples,
)

PAD_PATTERN = Pattern(
    aten=(
        aten.pad.default,
        aten.constant_pad_nd.default,
        aten.reflection_pad1d.default,
        aten.reflection_pad2d.default,
        aten.reflection_pad3d.default,
        aten.replication_pad1d.default,
        aten.replication_pad2d.default,
        aten.replication_pad3d.default,
    ),
    match=match,
    lower=lower,
)
