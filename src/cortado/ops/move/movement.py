"""Shared parts of operators that only move data: quantization, strided loops in C, permuted dimensions.

Pixel and channel shuffles are a reshape, a transpose and a reshape; permute_copy, t_copy and so on compute what the
calls without `_copy` do, but never alias their operand.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.errors import Reject
from cortado.base.target import Core
from cortado.ir.c_call import Bytes, Operand, Row
from cortado.ir.domain import DomainRule
from cortado.ir.facts import holds_integers
from cortado.ir.graph import Bound, add_call, bind, shape
from cortado.ir.kernel import Field
from cortado.ir.kernel_table import KernelRow, of_size
from cortado.ir.op import Call, Lowering, Pattern, Rewrite, registry
from cortado.ir.roles import Activation, Plain, Quantization, SharedWith
from cortado.ir.work import Calls, Quantities, Work, nested
from cortado.ops.loops import COPIED, RunSteps, copies
from cortado.ops.meaning import CallKind, calls

# ---- movement --------------------------------------------------------------------------------------------

MAX_LOOPS = 6  # nested loops of cortado_transpose_s8


def shared(bound: Bound, argument: str = "self") -> Quantization | Reject:
    """Gives the output the input's values, whatever their element: codes with their scale and zero point, or
    integers."""
    if 0 in shape(bound.node):
        return Reject(f"gives an empty tensor of shape {list(shape(bound.node))}")
    if holds_integers(bound[argument]) or bound.element.floating:
        return Quantization({}, Plain())
    return Quantization({argument: Activation(element=None)}, SharedWith(argument))


# ---- strided reads in C --------------------------------------------------------------------------------------


def strides_of(sizes: Sequence[int]) -> list[int]:
    """Returns the distance, in elements, of neighbours along each dimension of a contiguous tensor."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return strides[::-1]


def loops(sizes: Sequence[int], strides: Sequence[int]) -> tuple[list[int], list[int]]:
    """Returns the same walk with as few loops as possible: drops loops of one iteration, merges contiguous ones."""
    found: list[tuple[int, int]] = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1:
            continue
        if found and found[-1][1] == stride * size:
            found[-1] = (found[-1][0] * size, stride)
        else:
            found.append((size, stride))
    found = found or [(1, 1)]
    return [size for size, _ in found], [stride for _, stride in found]


@dataclass(frozen=True)
class StridedWalk:
    """out[i0][i1]... = in[offset + i0 * strides[0] + ...]; `sizes` are the output's."""

    sizes: Sequence[int]
    strides: Sequence[int]
    offset: int = 0


def strided_rows(walk: Callable[[Call], StridedWalk]) -> tuple[KernelRow, ...]:
    """Returns the kernels of calls that read their operand with strides."""

    def fields(call: Call) -> dict[str, Field]:
        turns, steps = loops((found := walk(call)).sizes, found.strides)
        return {"rank": len(turns), "shape": six(turns, 1), "stride": six(steps, 0), "offset": found.offset}

    def wide_work(call: Call) -> Work:
        found = walk(call)
        return _strided_work(*loops(found.sizes, found.strides), found.offset, call.element.bytes)

    single = KernelRow(
        "transpose_s8",
        None,
        fits=lambda call: call.element.bytes == 1,
        arguments=(Operand.LAYER, Bytes(Row(0)), Bytes(Operand.OUT)),
        struct="cortado_transpose_t",
        fields=fields,
        work=lambda call: _plane_work(_planes(walk(call)), vectors=False),
    )
    vectors = replace(
        single,
        symbol="transpose_s8__mve",
        cores=(Core.MVE,),
        work=lambda call: _plane_work(_planes(walk(call)), vectors=True),
    )
    return vectors, single, of_size(replace(single, work=wide_work), "transpose_wide")


_LEAST_COPY = 8  # bytes that are copied as one run
_NEAR, _FAR = 17, 9362  # how far apart the bytes of a line can be, sixteen of them at a time or eight


@dataclass(frozen=True)
class _Planes:
    """The two innermost loops, as the C function cortado_plane_of orders them."""

    rank: int
    lines: int
    length: int
    steps: tuple[int, int]  # how far apart the bytes of a line are, in the input and in the output
    starts: RunSteps

    @property
    def copied(self) -> bool:
        return self.steps == (1, 1) and self.length >= _LEAST_COPY

    def turns(self, vectors: bool) -> dict[str, float]:
        """Counts the loops of one line that isn't copied."""
        if vectors:
            near, far = (all(0 <= step <= most for step in self.steps) for most in (_NEAR, _FAR))
            eights = math.ceil(self.length / 8) if far else math.ceil(self.length / 4) / 2
            return {"sixteens": math.ceil(self.length / 16) if near else 0, "eights": 0 if near else eights}
        fours = self.length // 4 if 1 in self.steps else 0
        apart = fours if self.steps[0] == 1 else 0
        return {"taken_apart": apart, "put_together": fours - apart, "singles": self.length - 4 * fours}


def _planes(walk: StridedWalk) -> _Planes:
    sizes, strides = loops(walk.sizes, walk.strides)
    rows, columns = [1, *sizes][-2:]
    row_stride, stride = [0, *strides][-2:]
    starts = RunSteps(walk.offset, row_stride)
    by_row = _Planes(len(sizes), rows, columns, (stride, 1), starts)
    by_column = _Planes(len(sizes), columns, rows, (row_stride, columns), starts)
    return by_column if rows > columns and not by_row.copied else by_row


def _plane_work(one: _Planes, vectors: bool) -> Work:
    """Counts planes, and their lines: copied, or several bytes at a time."""
    turns = one.turns(vectors)

    def quantities(calls: Calls) -> Quantities:
        lines = calls.outputs / one.length
        copied, moved = (lines, 0.0) if one.copied else (0.0, lines)
        found = {"rank": one.rank, "planes": lines / one.lines, "moved_planes": moved / one.lines, "lines": moved}
        counted = {name: moved * number for name, number in turns.items()}
        return {**found, **counted, **copies(copied, one.length, one.starts, RunSteps(0, one.length))}

    terms = nested({"calls": "rank", "planes": "rank"})
    return Work((*terms, "moved_planes", "lines", *turns, *COPIED), quantities)


def _strided_work(sizes: Sequence[int], strides: Sequence[int], offset: int, item: int) -> Work:
    """Counts runs of the innermost dimension of values of several bytes, copied whole or value by value; one iteration
    for every two innermost dimensions."""
    inner = len(sizes) - 1
    length, step = sizes[inner], strides[inner - 1] if inner else 0
    area = length * (sizes[inner - 1] if inner else 1)

    def quantities(calls: Calls) -> Quantities:
        values = calls.outputs / item
        runs, found = values / length, {"rank": inner + 1, "turns": values / area}
        if strides[inner] != 1:
            sized = {"halves": values * (item == 2), "whole_words": values * (item == 4)}
            return {**found, "single_runs": runs, **sized, **copies(0, 0, RunSteps(0, 0), RunSteps(0, 0))}
        source, target = RunSteps(offset * item, step * item), RunSteps(0, length * item)
        none = dict.fromkeys(("single_runs", "halves", "whole_words"), 0.0)
        return {**found, **none, **copies(runs, length * item, source, target)}

    terms = nested({"calls": "rank", "turns": "rank"})
    return Work((*terms, *COPIED, "single_runs", "halves", "whole_words"), quantities)


def six(values: Sequence[int], fill: int) -> tuple[int, ...]:
    """Pads values to the fixed length of a descriptor's array."""
    return tuple([*values, *[fill] * (MAX_LOOPS - len(values))])


# ---- permuted dimensions --------------------------------------------------------------------------------------

Relayout = Callable[[Mapping[str, Any], tuple[int, ...]], Mapping[str, Any]]


def unpermuted(values: Sequence[int], perm: Sequence[int]) -> list[int]:
    """Reorders one number per dimension of x.permute(perm) to the dimensions of x."""
    result = [0] * len(perm)
    for position, dim in enumerate(perm):
        result[dim] = values[position]
    return result


def relayout_dim(arguments: Mapping[str, Any], perm: tuple[int, ...]) -> Mapping[str, Any]:
    """Permutes the dimension of operators that work along one."""
    return {**arguments, "dim": perm[arguments["dim"]]}


def relayout_lists(*names: str) -> Relayout:
    """Returns the relayout of operators that have a number per dimension in each of these arguments."""

    def relayout(arguments: Mapping[str, Any], perm: tuple[int, ...]) -> Mapping[str, Any]:
        return {**arguments, **{name: unpermuted(arguments[name], perm) for name in names}}

    return relayout


# ---- pixel shuffle ---------------------------------------------------------------------------------------

aten = torch.ops.aten


def lower_shuffle(lowering: Lowering) -> Node:
    """Lowers [N, C*r*r, H, W] -> [N, C, H*r, W*r] to a view, a transpose and a view."""
    source, factor = lowering.node("self"), int(lowering.bound["upscale_factor"])
    *batch, channels, height, width = shape(source)
    count = len(batch)
    split = lowering.view(source, (*batch, channels // factor**2, factor, factor, height, width))
    order = (*range(count), *(count + dim for dim in (0, 3, 1, 4, 2)))
    return lowering.view(lowering.transpose(split, order), shape(lowering.bound.node))


def lower_unshuffle(lowering: Lowering) -> Node:
    """Lowers [N, C, H*r, W*r] -> [N, C*r*r, H, W] to a view, a transpose and a view."""
    source, factor = lowering.node("self"), int(lowering.bound["downscale_factor"])
    *batch, channels, height, width = shape(source)
    count = len(batch)
    split = lowering.view(source, (*batch, channels, height // factor, factor, width // factor, factor))
    order = (*range(count), *(count + dim for dim in (0, 2, 4, 1, 3)))
    return lowering.view(lowering.transpose(split, order), shape(lowering.bound.node))


def lower_channel_shuffle(lowering: Lowering) -> Node:
    """Lowers a channel shuffle, which interleaves the channels of `groups` groups."""
    source, groups = lowering.node("self"), int(lowering.bound["groups"])
    batch, channels, *rest = shape(source)
    split = lowering.view(source, (batch, groups, channels // groups, *rest))
    order = (0, 2, 1, *range(3, 3 + len(rest)))
    return lowering.view(lowering.transpose(split, order), shape(source))


PIXEL_SHUFFLE_PATTERN = Pattern(aten=(aten.pixel_shuffle.default,), match=shared, lower=lower_shuffle, images=True)
PIXEL_UNSHUFFLE_PATTERN = Pattern(aten=(aten.pixel_unshuffle.default,), match=shared, lower=lower_unshuffle)
CHANNEL_SHUFFLE_PATTERN = Pattern(
    aten=(aten.channel_shuffle.default, aten.native_channel_shuffle.default), match=shared, lower=lower_channel_shuffle
)


# ---- copy forms ------------------------------------------------------------------------------------------

# Calls whose `_copy` variants have no pattern of their own.
_NAMES = "permute t transpose unsqueeze squeeze slice select detach alias"


def _plain() -> dict[OpOverload, OpOverload]:
    """Returns every overload of a `_copy`, with the overload without it."""
    found = {}
    for name in _NAMES.split():
        copied, plain = getattr(aten, f"{name}_copy"), getattr(aten, name)
        for overload in copied.overloads():
            if overload in plain.overloads() and not overload.endswith("out"):
                found[getattr(copied, overload)] = getattr(plain, overload)
    return found


PLAIN = _plain()


def without_copy(bound: Bound) -> Node:
    """Replaces a `_copy` call by the call without it, rewritten to that one's canonical spelling."""
    target = PLAIN[bound.node.target]  # type: ignore[index]
    plain, spelled = (
        add_call(bound.node, target, *bound.node.args, **bound.node.kwargs),
        registry().rewrites.get(target),
    )
    return (None if spelled is None else spelled.rewrite(bind(plain))) or plain


COPIED_RULE = DomainRule(
    aten=tuple(calls(CallKind.COPY)),
    bounds=lambda making, bound: making.interval(bound["self"]),
    words=lambda making, bound: making.word(bound["self"]),
    closed=True,
    keeps_truth=True,
)
COPY_REWRITE = Rewrite(aten=tuple(PLAIN), rewrite=without_copy, any_element=True)
