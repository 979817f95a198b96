"""out = the inputs, concatenated along one dimension.

An input that other calls need in another scale is rescaled by a table while it is copied; in the .pte by a table before
the call.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT8, INT32, INT64
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.base.target import CortexMTargetConfig
from cortado.ir import sampling
from cortado.ir.c_call import Bytes, Callee, Operand
from cortado.ir.facts import TABLE, dtype, element, holds_integers
from cortado.ir.graph import Bound, add_call, shape, sole_user
from cortado.ir.kernel import ONE_ROW, Array, Field, Rows
from cortado.ir.kernel_table import KernelRow, KernelTable, runs_by_row
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern, PteWriter, Rewrite
from cortado.ir.roles import Activation, Joined, Plain, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Calls, Quantities, Work
from cortado.ops.elementwise.activation import ACTIVATION, LOOKUPS
from cortado.ops.io.widen import as_words
from cortado.ops.loops import COPIED, VECTOR, RunSteps, added, copies
from cortado.ops.move.movement import relayout_dim

aten = torch.ops.aten
MAX_INPUTS = 4  # operands of one step of the C bundle
TABLES = tuple(f"lut{i}" for i in range(MAX_INPUTS))


def reference(*, tensors: list[Tensor], dim: int) -> Tensor:
    return torch.cat(tensors, dim)


def rescaled_reference(
    *,
    tensors: list[Tensor],
    lut0: Tensor | None,
    lut1: Tensor | None,
    lut2: Tensor | None,
    lut3: Tensor | None,
    dim: int,
) -> Tensor:
    parts = [
        part if table is None else ACTIVATION.reference(input=part, lut=table)
        for part, table in zip(tensors, (lut0, lut1, lut2, lut3), strict=False)
    ]
    return torch.cat(parts, dim)


def shapes(call: Call) -> list[tuple[int, ...]]:
    return [tuple(value.shape) if isinstance(value, Tensor) else tuple(value) for value in call["tensors"]]


def output_shape(call: Call) -> tuple[int, ...]:
    sizes = list(shapes(call)[0])
    sizes[call["dim"]] = sum(part[call["dim"]] for part in shapes(call))
    return tuple(sizes)


# ---- from aten -----------------------------------------------------------------------------------------------


def without_empty(bound: Bound) -> Node | None:
    """Drops empty tensors from a list; they add nothing, whatever their shape."""
    parts = bound.nodes("tensors")
    filled = [part for part in parts if 0 not in shape(part)]
    if len(filled) in (0, len(parts)):
        return None
    return add_call(bound.node, aten.cat.default, filled, bound["dim"])


def in_one_type(bound: Bound) -> Node | None:
    """Converts integers of several types to the type torch promotes them to; 32-bit and 64-bit integers are the same
    here."""
    wanted, parts = dtype(bound.node), bound.nodes("tensors")
    if wanted.is_floating_point or {dtype(part) for part in parts} <= {wanted, torch.int32, torch.int64, torch.bool}:
        return None
    alike = [
        part if dtype(part) in (wanted, torch.bool) else add_call(bound.node, aten.to.dtype, part, wanted)
        for part in parts
    ]
    return add_call(bound.node, bound.node.target, alike, **{k: v for k, v in bound.values.items() if k != "tensors"})


def match(bound: Bound) -> Quantization | Reject:
    if 0 in shape(bound.node):
        return Reject(f"gives an empty tensor of shape {list(shape(bound.node))}")
    parts = bound.nodes("tensors")
    if bound.element.floating and not any(holds_integers(part) for part in parts):
        return Quantization({}, Plain())
    if not any(holds_integers(part) for part in parts):
        kind = bound.element
        return Quantization({"tensors": Activation(kind)}, Joined(element=kind))
    kinds = {element(part) for part in parts}
    if kinds <= {INT32, INT64} or len(kinds) == 1:
        return Quantization({}, Plain())
    return Reject(f"joins {' and '.join(sorted(kind.name for kind in kinds))} tensors; convert them to one type")


@dataclass(frozen=True)
class JoinedInput:
    """An input, and the table that rescales it to the output, if any."""

    node: Node
    table: Node | None = None

    def view(self, lowering: Lowering, sizes: Sequence[int]) -> "JoinedInput":
        return replace(self, node=lowering.view(self.node, tuple(sizes)))


def operands(lowering: Lowering) -> list[JoinedInput]:
    """Returns the inputs, all in the output's scale; if others read a table's source too, this call does the table
    lookup."""
    nodes = lowering.bound.nodes("tensors")
    return [_part(lowering, node, f"tensor{number}") for number, node in enumerate(nodes)]


def _part(lowering: Lowering, node: Node, name: str) -> JoinedInput:
    if holds_integers(node):
        return JoinedInput(as_words(lowering, node, name) if element(node) == INT64 else node)
    source = node.kwargs["input"] if TABLE.known(node) else None
    if not isinstance(source, Node) or sole_user(node) is None or sole_user(source) is not None:
        return JoinedInput(node)
    table = node.kwargs["lut"]
    assert isinstance(table, Node)
    return JoinedInput(source, table)


def join(lowering: Lowering, parts: list[JoinedInput], dim: int) -> Node:
    """Adds one call, or a tree of calls if there are more inputs than a step can have."""
    while len(parts) > MAX_INPUTS:
        groups = [parts[i : i + MAX_INPUTS] for i in range(0, len(parts), MAX_INPUTS)]
        parts = [JoinedInput(join(lowering, group, dim)) for group in groups]
    if all(part.table is None for part in parts):
        return parts[0].node if len(parts) == 1 else lowering.call(CAT, tensors=[part.node for part in parts], dim=dim)
    tables = [part.table for part in parts] + [None] * (MAX_INPUTS - len(parts))
    named = dict(zip(TABLES, tables, strict=True))
    return lowering.call(CAT_RESCALED, tensors=[part.node for part in parts], **named, dim=dim)


def lower(lowering: Lowering) -> Node:
    dim = lowering.bound["dim"] % len(shape(lowering.bound.node))
    return join(lowering, operands(lowering), dim)


def lower_stack(lowering: Lowering) -> Node:
    sizes = list(shape(lowering.bound.node))
    dim = lowering.bound["dim"] % len(sizes)
    sizes[dim] = 1
    return join(lowering, [part.view(lowering, sizes) for part in operands(lowering)], dim)


def lower_hstack(lowering: Lowering) -> Node:
    parts = [part.view(lowering, shape(part.node) or (1,)) for part in operands(lowering)]
    return join(lowering, parts, min(1, len(shape(lowering.bound.node)) - 1))


def _as_column(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1, 1) if x.dim() < 2 else x


def _lower_at_least(lowering: Lowering, rank: int, dim: int) -> Node:
    """Lowers vstack, dstack, column_stack: every input is first reshaped to `rank` dimensions, as numpy does."""
    target = {(2, 0): torch.atleast_2d, (3, 2): torch.atleast_3d, (2, 1): _as_column}
    parts = [
        part.view(lowering, target[rank, dim](torch.empty(shape(part.node), device="meta")).shape)
        for part in operands(lowering)
    ]
    return join(lowering, parts, dim)


# ---- the C kernel --------------------------------------------------------------------------------------------


def rows(call: Call) -> Rows | None:
    """Joins channels pixel by pixel, columns row by row."""
    rules = tuple(ONE_ROW for _ in shapes(call))
    rank = len(shapes(call)[0])
    if call["dim"] == rank - 1:
        return Rows(rules, pixelwise=True)
    return Rows(rules) if (rank, call["dim"]) == (4, 2) else None


def _widths(call: Call) -> list[int]:
    """Returns the number of bytes that each tensor contributes to a run."""
    return [math.prod(part[call["dim"] :]) * call.element.bytes for part in shapes(call)]


def _fields(call: Call) -> dict[str, Field]:
    widths = _widths(call)
    return {"count": len(widths), "width": tuple([*widths, *[0] * (MAX_INPUTS - len(widths))])}


def _outer(call: Call) -> tuple[int]:
    return (math.prod(call.out_shape[: call["dim"]]) if rows(call) is None else 1,)


def _tables(call: Call) -> dict[str, Field]:
    return {name: None if call[name] is None else Array(call.array(name)) for name in TABLES}


def _rescaled_work(call: Call) -> Work:
    return _work(_widths(call), [call[name] is not None for name in TABLES[: len(shapes(call))]])


_PLAIN = KernelRow(
    "cat_s8",
    None,
    arguments=(Operand.LAYER, Operand.ROWS, Bytes(Operand.OUT), Operand.N),
    struct="cortado_cat_t",
    fields=_fields,
    numbers=_outer,
    work=lambda call: _work(_widths(call)),
)
KERNELS = KernelTable(runs_by_row(_PLAIN, rows))
RESCALED_KERNELS = KernelTable(
    tuple(
        replace(row, cores=cores, arguments=(*row.arguments, Callee(f"cortado_{lookup}")))
        for lookup, cores in LOOKUPS
        for row in runs_by_row(
            replace(
                _PLAIN,
                symbol="cat_tables_s8",
                struct="cortado_cat_tables_t",
                fields=lambda call: {**_fields(call), **_tables(call)},
                work=_rescaled_work,
            ),
            rows,
        )
    )
)


_LOOKED_UP = ("lookups", "looked", "looked_vectors")


def _work(widths: Sequence[int], with_tables: Sequence[bool] | None = None) -> Work:
    """Counts a run of each input after the other; some are rescaled by a table."""
    row, tables = sum(widths), with_tables or [False] * len(widths)
    starts = [sum(widths[:number]) for number in range(len(widths))]
    looked = [width for width, table in zip(widths, tables, strict=True) if table]

    def quantities(calls: Calls) -> Quantities:
        times = calls.outputs / max(row, 1)
        plain = [
            copies(times, width, RunSteps(0, width), RunSteps(start, row))
            for width, start, table in zip(widths, starts, tables, strict=True)
            if not table
        ]
        vectors = sum(math.ceil(width / VECTOR) for width in looked)
        numbers = (times * len(looked), times * sum(looked), times * vectors)
        return {**added(plain), "cat_rows": times, **dict(zip(_LOOKED_UP, numbers, strict=True))}

    return Work(("calls", "cat_rows", *COPIED, *(_LOOKED_UP if with_tables else ())), quantities)


def rescaled_in_pte(arguments: Mapping[str, Any], add: PteWriter, target: CortexMTargetConfig) -> Node:
    tables = [arguments[name] for name in TABLES]
    parts = [
        part if table is None else add(ACTIVATION, input=part, lut=table)
        for part, table in zip(arguments["tensors"], tables, strict=False)
    ]
    return add(CAT, tensors=parts, dim=arguments["dim"])


def samples(draw: CaseDraw, *, any_element: bool = True) -> dict[str, Any]:
    rank = draw.pick([1, 2, 3, 4, 4, 4, 5])
    sizes = [draw.whole(1, 6) for _ in range(rank)]
    dim = draw.whole(0, rank - 1)
    kind = draw.element(INT32) if any_element else INT8
    parts = []
    for _ in range(draw.whole(2, MAX_INPUTS)):
        sizes[dim] = draw.whole(1, 9)
        parts.append(draw.codes(tuple(sizes), kind))
    return {"tensors": parts, "dim": dim}


def rescaled_samples(draw: CaseDraw) -> dict[str, Any]:
    arguments = samples(draw, any_element=False)
    drawn = [draw.flag() and i < len(arguments["tensors"]) for i in range(MAX_INPUTS)]
    tables = [sampling.codes(draw.seed(), (256,)) if wanted else None for wanted in drawn]
    return {"tensors": arguments["tensors"], **dict(zip(TABLES, tables, strict=True)), "dim": arguments["dim"]}


CAT = Operator(
    name="aten::cat",
    summary="cat, stack: tensors one after the other",
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    rows=rows,
    element=ElementOf(("tensors",)),
    tensors=("tensors",),
    relayout=relayout_dim,
    samples=samples,
)

CAT_RESCALED = Operator(
    name="cortado::cat_rescaled",
    summary="cat, stack: tensors one after the other, some converted to another scale",
    reference=rescaled_reference,
    shape=output_shape,
    kernel=RESCALED_KERNELS,
    element=INT8,
    rows=rows,
    tensors=("tensors",),
    relayout=relayout_dim,
    pte=rescaled_in_pte,
    constraints="in the .pte, tables before a concatenation",
    samples=rescaled_samples,
)

CAT_REWRITE = Rewrite(
    aten=(aten.cat.default, aten.concat.default, aten.concatenate.default),
    rewrite=lambda bound: without_empty(bound) or in_one_type(bound),
    any_element=True,
)
STACK_REWRITE = Rewrite(
    aten=(
        *(aten.stack.default, aten.hstack.default, aten.vstack.default),
        *(aten.dstack.default, aten.column_stack.default),
    ),
    rewrite=in_one_type,
    any_element=True,
)

CAT_PATTERN = Pattern(
    aten=(aten.cat.default, aten.concat.default, aten.concatenate.default), match=match, lower=lower, moves=True
)
STACK_PATTERN = Pattern(aten=(aten.stack.default,), match=match, lower=lower_stack, moves=True)
HSTACK_PATTERN = Pattern(aten=(aten.hstack.default,), match=match, lower=lower_hstack, moves=True)
VSTACK_PATTERN = Pattern(
    aten=(aten.vstack.default,), match=match, lower=lambda lowering: _lower_at_least(lowering, 2, 0), moves=True
)
DSTACK_PATTERN = Pattern(
    aten=(aten.dstack.default,), match=match, lower=lambda lowering: _lower_at_least(lowering, 3, 2), moves=True
)
COLUMN_STACK_PATTERN = Pattern(
    aten=(aten.column_stack.default,), match=match, lower=lambda lowering: _lower_at_least(lowering, 2, 1), moves=True
)
