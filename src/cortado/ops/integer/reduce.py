"""out = the sum of integers along a dimension, modulo 2^32, or the smallest or largest of them; total or running.

Counts of truth values are sums, too. A sum that torch computes in float does not wrap around: it saturates to 32 bits.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT32
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.ir import sampling
from cortado.ir.c_call import Number, Operand, Row
from cortado.ir.domain import WORDS, DomainRule, Interval, Making
from cortado.ir.facts import IN_FLOAT, dtype
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.kernel_table import only
from cortado.ir.op import Call, Lowering, Operator, Pattern
from cortado.ir.roles import Plain, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.schemas import Functions
from cortado.ir.work import Work, loops
from cortado.ops.float_graph import add_permute, add_view
from cortado.ops.integer.calculate import How, words

aten = torch.ops.aten


def reduced(values: Tensor, how: int, running: bool) -> Tensor:
    """Reduces the middle of three dimensions, in 64 bits."""
    wide = values.to(torch.int64)
    if how in (How.SUM, How.BOUNDED_SUM):
        total = wide.cumsum(1) if running else wide.sum(1, keepdim=True)
        return total.clamp(INT32.low, INT32.high) if how == How.BOUNDED_SUM else total
    if running:
        return (wide.cummin(1) if how == How.SMALLER else wide.cummax(1)).values
    return wide.amin(1, keepdim=True) if how == How.SMALLER else wide.amax(1, keepdim=True)


def reference(*, input: Tensor, how: int, running: bool) -> Tensor:
    return reduced(input, how, running).to(torch.int32).contiguous()


# ---- from the float graph ------------------------------------------------------------------------------------

_LIBRARY = Functions()
_LIBRARY.define("reduced_ids(Tensor self, int how, bool running) -> Tensor")


def _meta(self: Tensor, how: int, running: bool) -> Tensor:
    outer, length, inner = self.shape
    return torch.empty((outer, length if running else 1, inner), dtype=torch.int64, device=self.device)


_LIBRARY.impl("reduced_ids", lambda self, how, running: reduced(self, how, running), "CompositeExplicitAutograd")
_LIBRARY.impl("reduced_ids", _meta, "Meta")
REDUCED_IDS = torch.ops.cortado.reduced_ids.default


def _dims(bound: Bound) -> list[int]:
    """Returns the dimensions that a reduction names; all of them if it names none."""
    rank, given = len(shape(bound["self"])), bound.get("dim")
    values = [given] if isinstance(given, int) else list(given or ())
    return sorted({dim % rank for dim in values}) if values and rank else list(range(rank))


def along(like: Node, word: Node, dims: Sequence[int], how: How, *, running: bool = False) -> Node:
    """Reduces these dimensions, viewed as the middle one of three; they are permuted first if they are not adjacent."""
    rank, sizes = len(shape(word)), shape(word)
    first = dims[0] if dims else 0
    if list(dims) != list(range(first, first + len(dims))):
        others = [dim for dim in range(rank) if dim not in dims]
        word, first = add_permute(like, word, (*others, *dims)), len(others)
        sizes = shape(word)
    behind = first + len(dims)
    view = (math.prod(sizes[:first]), math.prod(sizes[first:behind]), math.prod(sizes[behind:]))
    return add_call(like, REDUCED_IDS, add_view(like, word, view), int(how), running)


def _words(making: Making, bound: Bound, how: How, *, running: bool = False) -> Node | None:
    word = making.word(bound["self"])
    if word is None or 0 in shape(word):
        return None
    return add_view(bound.node, along(bound.node, word, _dims(bound), how, running=running), shape(bound.node))


def _sum(making: Making, bound: Bound, *, running: bool = False) -> Node | None:
    in_float = dtype(bound.node).is_floating_point or IN_FLOAT.known(bound.node)
    total = _sum_bounds(making, bound)
    wraps = not in_float or (total is not None and total.within(WORDS))
    return _words(making, bound, How.SUM if wraps else How.BOUNDED_SUM, running=running)


def _sum_bounds(making: Making, bound: Bound) -> Interval | None:
    """Returns the bounds of sums of that many numbers, or for running sums of fewer."""
    found, sizes = making.interval(bound["self"]), shape(bound["self"])
    if found is None:
        return None
    count = math.prod(sizes[dim] for dim in _dims(bound))
    running = shape(bound.node) == sizes
    total = Interval(found.low * count, found.high * count)
    return total.hull(found) if running else total


def _same_bounds(making: Making, bound: Bound) -> Interval | None:
    return making.interval(bound["self"])


def _count(making: Making, bound: Bound) -> Node | None:
    """Computes count_nonzero: the sum of the truth values."""
    truth = making.truth(bound["self"])
    if truth is None:
        return None
    word = add_call(bound.node, torch.ops.cortado.as_integer.default, truth)
    return add_view(bound.node, along(bound.node, word, _dims(bound), How.SUM), shape(bound.node))


def _count_bounds(making: Making, bound: Bound) -> Interval:
    return Interval(0, math.prod(shape(bound["self"])[dim] for dim in _dims(bound)))


SUM_RULE = DomainRule(
    aten=(aten.sum.default, aten.sum.dim_IntList),
    bounds=_sum_bounds,
    words=_sum,
    wraps=True,
    closed=True,
)
COUNT_RULE = DomainRule(
    aten=(aten.count_nonzero.default, aten.count_nonzero.dim_IntList), bounds=_count_bounds, words=_count
)
RUNNING_RULE = DomainRule(
    aten=(aten.cumsum.default,),
    bounds=_sum_bounds,
    words=lambda making, bound: _sum(making, bound, running=True),
    wraps=True,
    closed=True,
)
LARGEST_RULE = DomainRule(
    aten=(aten.amax.default, aten.max.default),
    bounds=_same_bounds,
    words=lambda making, bound: _words(making, bound, How.LARGER),
    closed=True,
)
SMALLEST_RULE = DomainRule(
    aten=(aten.amin.default, aten.min.default),
    bounds=_same_bounds,
    words=lambda making, bound: _words(making, bound, How.SMALLER),
    closed=True,
)


def match(bound: Bound) -> Quantization | Reject:
    return Quantization({}, Plain())


def lower(lowering: Lowering) -> Node:
    bound = lowering.bound
    return lowering.call(
        REDUCE_INT, input=words(lowering, "self"), how=int(bound["how"]), running=bool(bound["running"])
    )


# ---- the C kernel --------------------------------------------------------------------------------------------


def _work(call: Call) -> Work:
    outer, length, inner = call.shape("input")
    return loops(
        "calls columns columns*others columns*others*running columns*others*compared",
        columns=outer * inner,
        others=length - 1,
        running=call["running"],
        compared=int(call["how"]) != How.SUM,
    )


KERNELS = only(
    "reduce_s32",
    INT32,
    arguments=(Row(0), Operand.OUT, *map(Number, range(5))),
    numbers=lambda call: (*call.shape("input"), int(call["how"]), int(call["running"])),
    work=_work,
)


def output_shape(call: Call) -> tuple[int, ...]:
    outer, length, inner = call.shape("input")
    return (outer, length if call["running"] else 1, inner)


def samples(draw: CaseDraw) -> dict[str, Any]:
    sizes = draw.sizes(9, 3, 3)
    most = draw.pick([1, 100, INT32.high])
    return {
        "input": sampling.codes(draw.seed(), sizes, -most - 1, most, torch.int32),
        "how": int(draw.pick([How.SUM, How.SMALLER, How.LARGER, How.BOUNDED_SUM])),
    }


REDUCE_INT = Operator(
    name="cortado::reduce_int",
    summary="sums, counts, running sums, the smallest and the largest of integers along a dimension",
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    element=INT32,
    constraints="modulo 2^32",
    no_pte="a .pte takes real numbers",
    samples=samples,
)

REDUCED_IDS_PATTERN = Pattern(aten=(REDUCED_IDS,), match=match, lower=lower)
