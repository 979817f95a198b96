"""out = clamp(zero_point + sqrt(start + sum) * factor): Euclidean norms, of rows or element by element.

The sum is over squares of one tensor's codes, of two tensors' (hypot, complex numbers), or of their differences plus an
offset (distances). Codes have their zero points subtracted and are multiplied by up to 12 bits, which converts them to
a common step; `start` and the offset are in that step too. The sum is exact and its root is rounded once, so small
magnitudes next to large ones are not lost: squares in int8 would lose them.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.element import INT8
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor, clamp_int8
from cortado.ir.c_call import Absent, Operand, Row
from cortado.ir.facts import dtype
from cortado.ir.graph import Bound, add_call, bind, is_call, shape
from cortado.ir.kernel import ONE_ROW, Rows
from cortado.ir.kernel_table import PAIR, KernelRow, KernelTable
from cortado.ir.op import Call, Lowering, Operator, Pattern, Rewrite
from cortado.ir.roles import Activation, Multiplier, OutZeroPoint, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.schemas import Functions
from cortado.ir.work import Work, loops
from cortado.ops.elementwise import binary
from cortado.ops.elementwise.functions import LONGEST, root_argument, squared, summed
from cortado.ops.elementwise.pointwise import operands
from cortado.ops.float_graph import add_view
from cortado.ops.pool import measures
from cortado.ops.pool.reductions import Reduction, dims_of, reduce

aten = torch.ops.aten
MULTIPLIER_BITS = 12
LARGEST_START = 2**60  # squares have 56 bits; next to a larger start they don't change the output
LARGEST_OFFSET = 2**21
LARGEST_ROW = LONGEST  # squares of differences then sum to 62 bits

# ---- in the float graph --------------------------------------------------------------------------------------

_LIBRARY = Functions()
_LIBRARY.define("magnitude_of(Tensor input, Tensor? other, bool rows, bool apart, float offset, float eps) -> Tensor")


def _in_float(input: Tensor, other: Tensor | None, rows: bool, apart: bool, offset: float, eps: float) -> Tensor:
    if other is None or apart:
        terms = input if other is None else input - other + offset
        squares = terms * terms
    else:
        squares = input * input + other * other
    return torch.sqrt((squares.sum(-1, keepdim=True) if rows else squares) + eps)


def _meta(input: Tensor, other: Tensor | None, rows: bool, *others: Any) -> Tensor:
    return input.new_empty((input.shape[0], 1)) if rows else torch.empty_like(input)


_LIBRARY.impl("magnitude_of", _in_float, "CompositeExplicitAutograd")
_LIBRARY.impl("magnitude_of", _meta, "Meta")

MAGNITUDE_IN_FLOAT: OpOverload = torch.ops.cortado.magnitude_of.default


def _broadcast(like: Node, *sources: Node) -> list[Node]:
    sizes = list(torch.broadcast_shapes(*(shape(source) for source in sources)))
    return [
        source if list(shape(source)) == sizes else add_call(like, aten.expand.default, source, sizes)
        for source in sources
    ]


def _side_by_side(like: Node, first: Node, second: Node, eps: float = 0.0) -> Node:
    """Adds norms of two tensors, element by element, with broadcasting."""
    return add_call(like, MAGNITUDE_IN_FLOAT, *_broadcast(like, first, second), False, False, 0.0, eps)


def _of_rows(like: Node, source: Node, dims: Sequence[int], eps: float = 0.0) -> Node:
    """Adds the norms of one tensor, over some of its dimensions."""
    rows = measures.as_rows(like, source, dims)
    return add_view(like, add_call(like, MAGNITUDE_IN_FLOAT, rows, None, True, False, 0.0, eps), shape(like))


def _distance(like: Node, left: Node, right: Node, offset: float) -> Node:
    """Adds distances along the last dimension, with broadcasting."""
    rows = [measures.as_rows(like, one, [len(shape(one)) - 1]) for one in _broadcast(like, left, right)]
    return add_view(like, add_call(like, MAGNITUDE_IN_FLOAT, *rows, True, True, offset, 0.0), shape(like))


def hypot(bound: Bound) -> Node | None:
    """Rewrites hypot of two tensors; None for one tensor and a number, which is a table."""
    if len(operands(bound.node)) < 2:
        return None
    return _side_by_side(bound.node, bound["self"], bound["other"])


def root_of_squares(bound: Bound) -> Node | None:
    """Rewrites sqrt(a * a + b * b + eps) and sqrt((x * x).sum(dim) + eps), however squares are written."""
    source, eps = root_argument(bound.node)
    row = summed(source)
    if row is not None and len(source.users) == 1 and eps >= 0:
        return _of_rows(bound.node, row, sorted(dims_of(bind(source), len(shape(row)))), eps)
    if not is_call(source, aten.add.Tensor) or len(source.users) > 1 or bind(source)["alpha"] != 1 or eps < 0:
        return None
    first, second = (squared(bind(source)[name]) for name in ("self", "other"))
    if first is None or second is None or first is second:
        return None
    return _side_by_side(bound.node, first, second, eps)


def of_complex(bound: Bound) -> Node | None:
    """Rewrites abs of complex numbers whose real and imaginary parts are known."""
    source = bound["self"]
    if is_call(source, aten.complex.default):
        return _side_by_side(bound.node, bind(source)["real"], bind(source)["imag"])
    if is_call(source, aten.view_as_complex.default):
        pairs = bind(source)["self"]
        return _of_rows(bound.node, pairs, [len(shape(pairs)) - 1])
    return None


def _of_other_order(like: Node, source: Node, order: float, dims: frozenset[int]) -> Node | None:
    """Adds the sum of magnitudes, or the largest of them."""
    if order not in (1.0, math.inf):
        return None
    sizes = add_call(like, aten.abs.default, source)
    return reduce(like, sizes, dims, Reduction.SUM if order == 1.0 else Reduction.MAX, shape(like))


def vector_norm(bound: Bound) -> Node | None:
    """Takes vector norms of order 2, 1 or infinity."""
    like, source, order = bound.node, bound["self"], float(bound["ord"])
    dims = dims_of(bound, len(shape(source)))
    if dtype(like) != torch.float32:
        return None
    return _of_rows(like, source, sorted(dims)) if order == 2.0 else _of_other_order(like, source, order, dims)


def _apart(like: Node, left: Node, right: Node, order: float, eps: float) -> Node | None:
    if order == 2.0:
        return _distance(like, left, right, eps)
    difference = add_call(like, aten.sub.Tensor, left, right)
    moved = difference if eps == 0.0 else add_call(like, aten.add.Tensor, difference, eps)
    return _of_other_order(like, moved, order, frozenset({len(shape(moved)) - 1}))


def pairwise(bound: Bound) -> Node | None:
    return _apart(bound.node, bound["x1"], bound["x2"], float(bound["p"]), float(bound["eps"]))


def each_to_each(bound: Bound) -> Node | None:
    """Rewrites cdist: distances of rows of one matrix from rows of another."""
    left, right = bound["x1"], bound["x2"]
    one = [*shape(left)[:-1], 1, shape(left)[-1]]
    other = [*shape(right)[:-2], 1, *shape(right)[-2:]]
    views = add_view(bound.node, left, one), add_view(bound.node, right, other)
    return _apart(bound.node, *views, float(bound["p"]), 0.0)


def int16_decomposition(bound: Bound) -> Node | None:
    """Writes a norm out as squares, sums and a root, for int16: squares in 16 bits keep all that an int8 sum would."""
    like, terms = bound.node, [bound["input"]] if bound.get("other") is None else [bound["input"], bound["other"]]
    if bound["apart"]:
        apart = add_call(like, aten.sub.Tensor, *terms)
        terms = [add_call(like, aten.add.Tensor, apart, bound["offset"]) if bound["offset"] else apart]
    squares = [add_call(like, aten.mul.Tensor, one, one) for one in terms]
    total: Node | None = squares[0] if len(squares) == 1 else add_call(like, aten.add.Tensor, *squares)
    if bound["rows"] and total is not None:
        total = reduce(like, total, frozenset({1}), Reduction.SUM, shape(like))
    if total is None:
        return None
    total = add_call(like, aten.add.Tensor, total, bound["eps"]) if bound["eps"] else total
    return add_call(like, aten.sqrt.default, total)


# ---- what it computes ----------------------------------------------------------------------------------------


def reference(
    *,
    inputs: list[Tensor],
    zero_points: list[int],
    multipliers: list[int],
    rows: bool,
    apart: bool,
    offset: int,
    start: int,
    start_shift: int,
    output_zero_point: OutZeroPoint,
    output_multiplier: Multiplier,
    output_shift: int,
) -> Tensor:
    known = zip(inputs, zero_points, multipliers, strict=True)
    terms = [(codes.to(torch.int64) - zero) * multiplier for codes, zero, multiplier in known]
    squares = (terms[0] - terms[1] + offset).square() if apart else sum(term.square() for term in terms)
    assert isinstance(squares, Tensor)
    total = squares.sum(-1, keepdim=True) if rows else squares
    wide, left = measures.normalized(total + (start << start_shift))
    size = measures.rescaled(measures.root(wide), output_multiplier, 31 + (left >> 1) - output_shift)
    return clamp_int8(size + output_zero_point).contiguous()


def _names(bound: Bound) -> list[str]:
    return [name for name in ("input", "other") if bound.get(name) is not None]


def match(bound: Bound) -> Quantization | Reject:
    refused = measures.check_length(bound, LARGEST_ROW) if bound["rows"] else None
    return refused or Quantization({name: Activation(INT8) for name in _names(bound)}, Activation(INT8))


def lower(lowering: Lowering) -> Node:
    bound, names = lowering.bound, _names(lowering.bound)
    parameters = [lowering.q(name) for name in names]
    step = max(one.scale for one in parameters) / (2**MULTIPLIER_BITS - 1)
    start = min(round(bound["eps"] / step / step), LARGEST_START)
    shift = max(start.bit_length() - 31, 0)
    return lowering.call(
        MAGNITUDE,
        inputs=[lowering.node(name) for name in names],
        zero_points=[one.zero_point for one in parameters],
        multipliers=[round(one.scale / step) for one in parameters],
        rows=bound["rows"],
        apart=bound["apart"],
        offset=max(-LARGEST_OFFSET, min(LARGEST_OFFSET, round(bound["offset"] / step))),
        start=start >> shift,
        start_shift=shift,
        output_zero_point=lowering.out.zero_point,
        **measures.factor(lowering, step / lowering.out.scale),
    )


# ---- the C kernel --------------------------------------------------------------------------------------------


def _sizes(call: Call) -> tuple[int, ...]:
    return call.shapes("inputs")[0]


def output_shape(call: Call) -> tuple[int, ...]:
    return (*_sizes(call)[:-1], 1) if call["rows"] else _sizes(call)


def _length(call: Call) -> int:
    return _sizes(call)[-1] if call["rows"] else 1


def _fields(call: Call) -> dict[str, int]:
    fields = {f"{name}_zero": zero for name, zero in zip("ab", (*call["zero_points"], 0), strict=False)}
    fields |= {f"{name}_multiplier": factor for name, factor in zip("ab", (*call["multipliers"], 0), strict=False)}
    return {
        "length": _length(call),
        **fields,
        "offset": call["offset"],
        "start": call["start"],
        "start_shift": call["start_shift"],
        "out_zero": call["output_zero_point"],
        "out_multiplier": call["output_multiplier"],
        "out_shift": call["output_shift"],
    }


def _work(call: Call) -> Work:
    terms = "calls outputs outputs*tensors outputs*tensors*length"
    return loops(terms, tensors=len(call["inputs"]), length=_length(call))


_TWO = KernelRow(
    "magnitude_s8",
    INT8,
    fits=lambda call: len(call["inputs"]) == 2,
    arguments=PAIR,
    struct="cortado_magnitude_t",
    fields=_fields,
    work=_work,
)
KERNELS = KernelTable(
    (
        replace(
            _TWO,
            symbol="distance_s8",
            fits=lambda call: bool(call["apart"]),
            work=lambda call: loops("calls outputs outputs*length", length=_length(call)),
        ),
        _TWO,
        replace(_TWO, fits=None, arguments=(Operand.LAYER, Row(0), Absent(), Operand.OUT, Operand.N)),
    )
)


def rows(call: Call) -> Rows:
    return Rows((ONE_ROW,) * len(call["inputs"]), pixelwise=True, elementwise=not call["rows"])


def samples(draw: CaseDraw) -> dict[str, Any]:
    most = 2**MULTIPLIER_BITS - 1
    by_row, apart = draw.pick([(True, False), (False, False), (True, True)])
    drawn = measures.draw_pair(draw) if by_row else binary.draw_operands(draw, by_channel=False)
    codes = [drawn["input" if by_row else "self"], *([] if by_row and not apart else [drawn["other"]])]
    multipliers = [most, draw.whole(0, most)]
    if len(codes) == 2 and draw.flag():
        multipliers.reverse()
    return {
        "inputs": codes,
        "zero_points": [draw.zero_point() for _ in codes],
        "multipliers": multipliers[: len(codes)],
        "rows": by_row,
        "apart": apart,
        "offset": draw.pick([0, 1, -70, LARGEST_OFFSET, -LARGEST_OFFSET]) if apart else 0,
        "start": 0 if apart else draw.pick([0, 1, 70_000, 2**31 - 1]),
        "start_shift": draw.pick([0, 0, 1, 29]),
        "output_shift": draw.whole(-30, -6),
    }


MAGNITUDE = Operator(
    name="cortado::magnitude",
    summary="Euclidean norm: of rows, of two tensors element by element, of differences of rows",
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    element=INT8,
    rows=rows,
    tensors=("inputs",),
    relayout=lambda arguments, perm: None if arguments["rows"] and perm[-1] != len(perm) - 1 else arguments,
    constraints=f"rows of at most {LARGEST_ROW} values",
    no_pte="the runtime has no integer operator for it, and int8 squares would lose small magnitudes",
    samples=samples,
)

MAGNITUDE_PATTERN = Pattern(
    aten=(MAGNITUDE_IN_FLOAT,), match=match, lower=lower, int16_decomposition=int16_decomposition
)
HYPOT_REWRITE = Rewrite(aten=(aten.hypot.default,), rewrite=hypot)
ROOT_REWRITE = Rewrite(aten=(aten.sqrt.default,), rewrite=root_of_squares)
ABS_REWRITE = Rewrite(aten=(aten.abs.default,), rewrite=of_complex)
VECTOR_NORM_REWRITE = Rewrite(aten=(aten.linalg_vector_norm.default,), rewrite=vector_norm)
PAIRWISE_REWRITE = Rewrite(aten=(aten.pairwise_distance.default,), rewrite=pairwise)
CDIST_REWRITE = Rewrite(aten=(aten.cdist.default,), rewrite=each_to_each)
