"""out[n, y, x, c] = in[n, y / factors[0], x / factors[1], c], NHWC. With fractional factors, rows and columns are
picked."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from cortado.base.numerics import Tensor
from cortado.base.target import CortexMTargetConfig
from cortado.ir.c_call import Bytes, Number, Operand, Row
from cortado.ir.graph import TO_NCHW, TO_NHWC, Bound, shape
from cortado.ir.kernel import RowRule, Rows
from cortado.ir.kernel_table import KernelRow, KernelTable
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern, PteWriter
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Work
from cortado.ops.loops import COPIED, RunSteps, added, copies
from cortado.ops.move.index_select import pick
from cortado.ops.move.movement import shared
from cortado.ops.move.repeat import REPEAT
from cortado.ops.move.reshape import VIEW

aten = torch.ops.aten


def reference(*, input: Tensor, factors: list[int]) -> Tensor:
    return input.repeat_interleave(factors[0], 1).repeat_interleave(factors[1], 2)


def output_shape(call: Call) -> tuple[int, ...]:
    n, h, w, c = call.shape("input")
    return n, h * call["factors"][0], w * call["factors"][1], c


# ---- from aten -----------------------------------------------------------------------------------------------


def positions(bound: Bound) -> list[list[int]]:
    """Returns, for each spatial dimension, the input position of every output position, with PyTorch's own rounding."""
    sizes, out_sizes = shape(bound["input" if "input" in bound.values else "self"])[2:], shape(bound.node)[2:]
    exact = "exact" in str(bound.node.target)
    line = aten._upsample_nearest_exact1d.vec if exact else aten.upsample_nearest1d.vec
    factors = _scale_factors(bound)
    found = []
    for dim, (size, out_size) in enumerate(zip(sizes, out_sizes, strict=True)):
        ramp = torch.arange(size, dtype=torch.float32).reshape(1, 1, size)
        given = ([out_size], None) if factors[dim] is None else (None, [factors[dim]])
        found.append([int(position) for position in line(ramp, *given).reshape(-1)])
    return found


def _scale_factors(bound: Bound) -> list[float | None]:
    """Returns the scale factors that the model gives; None for an axis with a size instead."""
    spatial = len(shape(bound.node)) - 2
    if bound.get("scale_factors") is not None:
        return list(bound["scale_factors"])
    names = ("scales_d", "scales_h", "scales_w")[-spatial:] if spatial > 1 else ("scales",)
    return [bound.get(name) for name in names]


def whole_factor(index: list[int], size: int) -> int | None:
    """Returns f if every position occurs f times in a row."""
    factor = len(index) // size
    return factor if index == [position // factor for position in range(factor * size)] and factor else None


def lower(lowering: Lowering) -> Node:
    bound = lowering.bound
    node = lowering.node("input" if "input" in bound.values else "self")
    index, sizes = positions(bound), shape(node)
    factors = [whole_factor(where, size) for where, size in zip(index, sizes[2:], strict=True)]
    if len(factors) > 2 or None in factors:
        for dim, where in enumerate(index, start=2):
            node = pick(lowering, node, dim, where)
        return node
    if len(factors) == 1:
        node, factors = lowering.view(node, (*sizes[:2], 1, sizes[2])), [1, *factors]
    if factors != [1, 1]:
        wide = lowering.call(UPSAMPLE, input=lowering.transpose(node, TO_NHWC), factors=factors)
        node = lowering.transpose(wide, TO_NCHW)
    return lowering.view(node, shape(bound.node))


def match(bound: Bound) -> Any:
    return shared(bound, "input" if "input" in bound.values else "self")


# ---- the .pte ------------------------------------------------------------------------------------------------


def pte(arguments: Mapping[str, Any], add: PteWriter, target: CortexMTargetConfig) -> Node:
    """Writes a repeat along two new dimensions, which moves whole pixels; the portable upsampling kernel reads NCHW."""
    source, (down, right) = arguments["input"], arguments["factors"]
    n, h, w, c = shape(source)
    apart = add(VIEW, self=source, size=[n, h, 1, w, 1, c])
    repeated = add(REPEAT, self=apart, repeats=[1, 1, down, 1, right, 1])
    return add(VIEW, self=repeated, size=[n, h * down, w * right, c])


# ---- the C kernel --------------------------------------------------------------------------------------------


def _by_row(call: Call) -> bool:
    """Whether it runs row by row: the row loop repeats rows by powers of two."""
    return call["factors"][0].bit_count() == 1


def rows(call: Call) -> Rows | None:
    return Rows(inputs=(RowRule(repeat=call["factors"][0]),)) if _by_row(call) else None


def _item(call: Call) -> int:
    """Returns the number of bytes in a pixel."""
    return call.shape("input")[3] * call.element.bytes


def _fields(call: Call) -> dict[str, int]:
    down, right = call["factors"]
    return {"in_w": call.shape("input")[2], "channels": _item(call), "factor_h": down, "factor_w": right}


def _all_work(call: Call) -> Work:
    n, h, w, _ = call.shape("input")
    return _work(n * h, (w, _item(call)), call["factors"])


_ROW = KernelRow(
    "upsample_nearest_s8",
    None,
    fits=_by_row,
    arguments=(Operand.LAYER, Bytes(Row(0)), Bytes(Operand.OUT)),
    struct="cortado_upsample_t",
    fields=_fields,
    work=lambda call: _row_work(call.shape("input")[2], _item(call), call["factors"][1]),
)
KERNELS = KernelTable(
    (
        _ROW,
        replace(
            _ROW,
            symbol="upsample_nearest_rows_s8",
            fits=None,
            arguments=(*_ROW.arguments, Number(0)),
            numbers=lambda call: (math.prod(call.shape("input")[:2]),),
            work=_all_work,
        ),
    )
)


def _pixel_runs(pixels: float, channels: int) -> dict[str, float]:
    return copies(pixels, channels, RunSteps(0, channels), RunSteps(0, channels))


def _row_work(width: int, channels: int, right: int) -> Work:
    """Counts a run for every output pixel of a row."""
    return Work(
        ("calls", "pixels", *COPIED),
        lambda calls: {"pixels": calls.calls * width, **_pixel_runs(calls.calls * width * right, channels)},
    )


def _work(rows: int, sizes: tuple[int, int], factors: tuple[int, int]) -> Work:
    """Counts the same for every row, and the copies of the resulting rows."""
    (width, channels), (down, right) = sizes, factors
    row = width * right * channels
    more = copies(rows * (down - 1), row, RunSteps(0, row), RunSteps(row, row))
    several = added([_pixel_runs(rows * width * right, channels), more])
    return Work(("calls", "rows", "pixels", *COPIED), lambda calls: {"rows": rows, "pixels": rows * width, **several})


def samples(draw: CaseDraw) -> dict[str, Any]:
    shape = (draw.whole(1, 2), draw.whole(1, 6), draw.whole(1, 6), draw.channels())
    return {
        "input": draw.codes(shape),
        "factors": [draw.whole(1, 4) for _ in range(2)],
    }


UPSAMPLE = Operator(
    name="cortado::upsample_nearest_nhwc",
    summary="nearest-neighbour upsampling by integer factors",
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    rows=rows,
    element=ElementOf(("input",)),
    pte=pte,
    constraints="in the .pte, a repeat between two views",
    by_channel=True,
    samples=samples,
)

UPSAMPLE_PATTERN = Pattern(
    aten=tuple(
        overload
        for name in ("upsample_nearest", "_upsample_nearest_exact")
        for dims in (1, 2, 3)
        for overload in (getattr(aten, f"{name}{dims}d").vec, getattr(aten, f"{name}{dims}d").default)
    ),
    match=match,
    lower=lower,
    monotone=True,
    images=True,
)
