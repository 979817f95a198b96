"""Functions of one int16 tensor, element by element.

Most are tables of 513 values, 128 codes apart, with linear interpolation, fitted to all 65,536 codes: out = t[i] +
((t[i + 1] - t[i]) * f + 64) >> 7 with x + 32768 = 128 * i + f.

A function with few values, like a comparison or a floor, is a list of runs: the last code of each, and its value.

A function that jumps, or is steep somewhere, keeps the exact 128 values of those segments where interpolation is too
far off.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from cortado.base.arrays import ArrayType
from cortado.base.element import CODES, INT16
from cortado.base.errors import Refused
from cortado.base.numerics import QParams, Tensor
from cortado.ir import sampling
from cortado.ir.c_call import Bytes, Member, Number, Operand, Row
from cortado.ir.kernel import ONE_ROW, Rows
from cortado.ir.kernel_table import only
from cortado.ir.op import ElementOf, Lowering, Operator
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import loops
from cortado.ops.loops import ELEMENTS

STEP = 128  # codes from one entry to the next
ENTRIES = 513
MOST_RUNS = 512
CLOSE = 32.0  # codes: the largest accepted interpolation error
MOST_EXACT = 64  # segments of 128 codes with exact values
SEEN = 8192  # codes: the range that calibration has seen; int16 has headroom for four times as much
FAR = 512.0  # codes: a larger remaining error is refused


def reference(*, input: Tensor, table: Tensor) -> Tensor:
    at = input.to(torch.int64) - INT16.low
    entries = table.to(torch.int64)
    first = entries[at >> 7]
    return (first + (((entries[(at >> 7) + 1] - first) * (at & (STEP - 1)) + STEP // 2) >> 7)).to(torch.int16)


def steps_reference(*, input: Tensor, ends: Tensor, values: Tensor, dtype: torch.dtype) -> Tensor:
    return values[torch.bucketize(input, ends)].to(dtype).contiguous()


def patched_reference(*, input: Tensor, table: Tensor, parts: Tensor, exact: Tensor) -> Tensor:
    at = input.to(torch.int64) - INT16.low
    part = parts.to(torch.int64)[at >> 7]
    kept = exact[(part - 1).clamp(min=0) * STEP + (at & (STEP - 1))]
    return torch.where(part > 0, kept, reference(input=input, table=table)).contiguous()


# ---- from a function to its table ----------------------------------------------------------------------------


def all_codes() -> Tensor:
    return torch.arange(INT16.low, INT16.high + 1, dtype=torch.int32)


@dataclass(frozen=True)
class FunctionRuns:
    """A function with few values, as runs of codes."""

    ends: Tensor
    values: Tensor


def runs_of(codes: Tensor) -> FunctionRuns | None:
    """Returns the runs of a function over all 65,536 codes; None if there are many."""
    changes = (codes[1:] != codes[:-1]).nonzero().reshape(-1)
    if len(changes) >= MOST_RUNS:
        return None
    last = torch.cat([changes, torch.tensor([len(codes) - 1])])
    return FunctionRuns((last + INT16.low).to(torch.int16), codes[last].to(torch.int16))


def _fitted(values: ArrayType) -> ArrayType:
    """Returns the entries with the least squared interpolation error: tridiagonal normal equations."""
    part = np.arange(STEP) / STEP
    up, down = part, 1.0 - part
    rows = values.reshape(-1, STEP)
    right = np.zeros(ENTRIES)
    right[:-1] += rows @ down
    right[1:] += rows @ up
    middle = np.zeros(ENTRIES)
    middle[:-1] += (down * down).sum()
    middle[1:] += (up * up).sum()
    beside = float((up * down).sum())
    for i in range(1, ENTRIES):
        factor = beside / middle[i - 1]
        middle[i] -= factor * beside
        right[i] -= factor * right[i - 1]
    found = np.zeros(ENTRIES)
    found[-1] = right[-1] / middle[-1]
    for i in range(ENTRIES - 2, -1, -1):
        found[i] = (right[i] - beside * found[i + 1]) / middle[i]
    return found


def _touching(values: ArrayType) -> ArrayType:
    """Returns the function's own values as entries."""
    return np.append(values[::STEP], 2 * values[-1] - values[-2])


def entries_of(values: Tensor) -> Tensor:
    """Returns the table of a function, given its values at all codes in steps of the output: the better of two by
    largest error."""
    wanted = values.to(torch.float64).clamp(*INT16.codes).numpy()
    tables = [
        torch.from_numpy(made(wanted).round()).clamp(*INT16.codes).to(torch.int16) for made in (_touching, _fitted)
    ]
    codes = all_codes().to(torch.int16)

    def error(table: Tensor) -> float:
        return float((reference(input=codes, table=table).to(torch.float64) - torch.from_numpy(wanted)).abs().max())

    return min(tables, key=error)


def distances(table: Tensor, values: Tensor) -> Tensor:
    """Returns, for each segment of 128 codes, the largest interpolation error, in codes."""
    wanted = values.to(torch.float64).clamp(*INT16.codes)
    found = reference(input=all_codes().to(torch.int16), table=table).to(torch.float64)
    return (found - wanted).abs().reshape(-1, STEP).amax(1)


@dataclass(frozen=True)
class PatchedTable:
    """A table for interpolation, and exact values for some segments of 128 codes: parts[i] is 0, or 1 + the position in
    `exact`."""

    table: Tensor
    parts: Tensor
    exact: Tensor
    left: float  # the largest error of interpolation where it is kept, in codes


def patched(values: Tensor) -> PatchedTable:
    """Keeps exact values for the segments that are too far off: first those in the calibrated range, then the worst."""
    wanted = values.to(torch.float64).clamp(*INT16.codes)
    table = torch.from_numpy(_touching(wanted.numpy()).round()).clamp(*INT16.codes).to(torch.int16)
    off = distances(table, values)
    starts = torch.arange(INT16.low, INT16.high, STEP)
    rank = torch.where((starts >= -SEEN) & (starts < SEEN) & (off > CLOSE), off + INT16.steps, off)
    worst = rank.argsort(descending=True, stable=True)[:MOST_EXACT]
    chosen = worst[off[worst] > CLOSE].sort().values
    parts = torch.zeros(len(off), dtype=torch.uint8)
    parts[chosen] = torch.arange(1, len(chosen) + 1, dtype=torch.uint8)
    exact = wanted.round().to(torch.int16).reshape(-1, STEP)[chosen].reshape(-1)
    off[chosen] = 0.0
    return PatchedTable(table, parts, exact, left=float(off.max()))


def looked_up(lowering: Lowering, source: Node, values: Tensor, out: QParams) -> Node:
    """Adds a call that returns these real numbers, one for each of the 65,536 codes."""
    finite = torch.nan_to_num(values.to(torch.float64), nan=0.0, posinf=torch.inf, neginf=-torch.inf)
    steps = finite / out.scale + out.zero_point
    runs = runs_of(steps.round().clamp(*out.element.codes).to(torch.int32))
    if runs is not None:
        ends, kept = lowering.constant("ends", runs.ends), lowering.constant("values", runs.values)
        return lowering.call(STEPS, input=source, ends=ends, values=kept, dtype=out.element.torch_dtype)
    table = entries_of(steps)
    if float(distances(table, steps).max()) <= CLOSE:
        return lowering.call(FUNCTION, input=source, table=lowering.constant("table", table))
    found = patched(steps)
    if found.left > FAR:
        raise Refused(
            f"this function of int16 codes jumps or oscillates too often: {ENTRIES} entries and {MOST_EXACT * STEP} "
            f"values where it is steep leave an error of {found.left:.0f} of {INT16.high} codes, expected at most "
            f"{FAR:.0f}; keep it in int8 (--state int8, or --int16 without its module) or in float32 (--activations "
            "float32, or --float32 with its module), or write it with comparisons"
        )
    return lowering.call(
        PATCHED,
        input=source,
        table=lowering.constant("table", found.table),
        parts=lowering.constant("parts", found.parts),
        exact=lowering.constant("exact", found.exact),
    )


# ---- the C kernels -------------------------------------------------------------------------------------------


KERNELS = only(
    "table_s16",
    INT16,
    arguments=(Member("table"), Row(0), Operand.OUT, Operand.N),
    struct="cortado_table_s16_t",
    work=ELEMENTS,
)
PATCHED_KERNELS = only(
    "patched_s16",
    INT16,
    struct="cortado_patched_s16_t",
    work=ELEMENTS,
)


STEPS_KERNELS = only(
    "steps_s16",
    INT16,
    arguments=(Operand.LAYER, Row(0), Bytes(Operand.OUT), Operand.N, Number(0)),
    struct="cortado_steps_s16_t",
    fields=lambda call: {"runs": call.shape("ends")[0]},
    numbers=lambda call: (call.element.bytes,),
    work=lambda call: loops("calls spans spans*halvings", halvings=call.shape("ends")[0].bit_length()),
)


def samples(draw: CaseDraw) -> dict[str, Any]:
    seed, sizes = draw.seed(), draw.sizes(9, 1, 4)
    table = sampling.codes(seed, (ENTRIES,), *INT16.codes, torch.int16)
    return {"input": draw.codes(sizes, INT16), "table": table}


def patched_samples(draw: CaseDraw) -> dict[str, Any]:
    seed, sizes = draw.seed(), draw.sizes(9, 1, 4)
    count = draw.pick([1, 2, 7, 32, MOST_EXACT])
    parts = torch.zeros(ENTRIES - 1, dtype=torch.uint8)
    codes = draw.codes(sizes, INT16)
    chosen = torch.randperm(ENTRIES - 1, generator=torch.Generator().manual_seed(seed))[:count]
    chosen[0] = (int(codes.view(-1)[0]) - INT16.low) // STEP
    for place, part in enumerate(sorted(set(chosen.tolist()))):
        parts[part] = place + 1
    table = sampling.codes(4 * seed + 1, (ENTRIES,), *INT16.codes, torch.int16)
    exact = sampling.codes(4 * seed + 2, (int(parts.max()) * STEP,), *INT16.codes, torch.int16)
    return {"input": codes, "table": table, "parts": parts, "exact": exact}


def steps_samples(draw: CaseDraw) -> dict[str, Any]:
    kind, runs = draw.pick(CODES), draw.pick([1, 2, 3, 4, 7, 8, 100])
    sizes, seed = draw.sizes(9, 1, 4), draw.seed()
    ends = sampling.codes(4 * seed + 1, (runs,), *INT16.codes, torch.int16).sort().values
    ends[-1] = INT16.high
    codes = draw.codes(sizes, INT16)
    codes.view(-1)[0] = ends[0]
    values = sampling.codes(seed, (runs,), kind.low, kind.high, torch.int16)
    return {"input": codes, "ends": ends, "values": values, "dtype": kind.torch_dtype}


FUNCTION = Operator(
    name="cortado::function",
    summary="any function of one int16 tensor, element by element, interpolated between 513 entries",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=KERNELS,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True, elementwise=True),
    element=INT16,
    relayout=lambda arguments, perm: arguments,
    by_channel=True,
    no_pte="ExecuTorch's operators take int8",
    samples=samples,
)
PATCHED = replace(
    FUNCTION,
    name="cortado::patched_function",
    summary=(
        "a function of one int16 tensor that jumps or is steep: interpolated, with exact values where that is "
        "inaccurate"
    ),
    reference=patched_reference,
    kernel=PATCHED_KERNELS,
    samples=patched_samples,
)
STEPS = replace(
    FUNCTION,
    name="cortado::steps",
    summary="a function of one int16 tensor that has few values, such as a comparison with a number",
    reference=steps_reference,
    kernel=STEPS_KERNELS,
    element=ElementOf(("dtype",)),
    samples=steps_samples,
)
