"""out = the positions of the k largest codes along the last dimension, or of the smallest, the best first; a second
result, values = the codes at these positions.

Of equal codes the first is the better. Order statistics (median, kthvalue, quantile) are computed by topk, from the
nearer end.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import CODES, FLOAT32, INT8, INT32
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.base.target import Core
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.kernel import ONE_ROW, Rows
from cortado.ir.kernel_table import KernelTable
from cortado.ir.op import Call, Decomposition, ElementOf, Lowering, Operator, Pattern, Result, Rewrite
from cortado.ir.roles import Activation, Plain, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.schemas import Functions
from cortado.ir.work import Work, loops
from cortado.ops.float_graph import add_permute, replace_result
from cortado.ops.move.pick import PICKED, POSITIONS, VALUES, by_results

# ---- topk ------------------------------------------------------------------------------------------------

aten = torch.ops.aten


def reference(*, input: Tensor, k: int, largest: bool) -> tuple[Tensor, Tensor]:
    codes = _ranks(input) if input.is_floating_point() else input.to(torch.int64)
    order = torch.sort(-codes if largest else codes, dim=-1, stable=True).indices[..., :k]
    return order.to(torch.int32).contiguous(), input.gather(-1, order).contiguous()


def _ranks(numbers: Tensor) -> Tensor:
    """Maps float32 to integers of the same order, NaN above all; zeros of either sign are equal."""
    bits = torch.where(numbers.isnan(), torch.nan, numbers).view(torch.int32).to(torch.int64)
    return torch.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def output_shape(call: Call) -> tuple[int, ...]:
    return (*call.shape("input")[:-1], call["k"])


# ---- from aten -----------------------------------------------------------------------------------------------

_LIBRARY = Functions()
_LIBRARY.define("best_positions(Tensor self, int k, bool largest) -> Tensor")


def _best(self: Tensor, k: int, largest: bool) -> Tensor:
    """Takes the first of equal numbers, as the C kernel does, even where a model leaves that open:
    `capture.eager.RightKernels` does the same."""
    return torch.sort(self, dim=-1, descending=largest, stable=True).indices[..., :k].contiguous()


def _no_best(self: Tensor, k: int, largest: bool) -> Tensor:
    return self.new_empty((*self.shape[:-1], k), dtype=torch.int64)


_LIBRARY.impl("best_positions", _best, "CompositeExplicitAutograd")
_LIBRARY.impl("best_positions", _no_best, "Meta")
BEST = torch.ops.cortado.best_positions.default


def _first_of_equal(self: Tensor, k: int, largest: bool) -> Tensor:
    """Computes the same by counting the numbers before each."""
    mine, others = self.unsqueeze(-1), self.unsqueeze(-2)
    places = torch.arange(self.shape[-1])
    better = others > mine if largest else others < mine
    equal = (others == mine) & (places < places.unsqueeze(-1))
    rank = (better | equal).to(torch.float32).sum(-1)
    return torch.topk(rank, k, dim=-1, largest=False).indices


@dataclass(frozen=True)
class _Along:
    """A call along one dimension of a tensor, converted to one along the last."""

    like: Node
    source: Node
    dim: int

    @property
    def order(self) -> list[int]:
        rank = len(shape(self.source))
        return [*(dim for dim in range(rank) if dim != self.dim % rank), self.dim % rank]

    def moved(self) -> Node:
        return add_permute(self.like, self.source, self.order)

    def back(self, found: Node) -> Node:
        return add_permute(self.like, found, [self.order.index(dim) for dim in range(len(self.order))])


def _replace(bound: Bound, k: int, largest: bool) -> None:
    """Replaces both results of a sort: the positions, and the values at these positions."""
    along = _Along(bound.node, bound["self"], int(bound["dim"]))
    source = along.moved()
    best = add_call(bound.node, BEST, source, k, largest)
    replace_result(bound.node, 0, along.back(add_call(bound.node, PICKED, source, best)))
    replace_result(bound.node, 1, along.back(best))


def topk_to_best(bound: Bound) -> None:
    if shape(bound["self"]):
        _replace(bound, int(bound["k"]), bool(bound["largest"]))


def sort_to_best(bound: Bound) -> None:
    if shape(bound["self"]):
        _replace(bound, shape(bound["self"])[bound["dim"]], bool(bound["descending"]))


def argsort_to_best(bound: Bound) -> Node | None:
    if not shape(bound["self"]):
        return None
    along = _Along(bound.node, bound["self"], int(bound["dim"]))
    size, descending = shape(bound["self"])[bound["dim"]], bool(bound["descending"])
    return along.back(add_call(bound.node, BEST, along.moved(), size, descending))


def refuse(bound: Bound) -> Reject:
    """Refuses the calls that the rewrites left alone."""
    return Reject("of a single number has no dimension to search")


LARGEST_ROW = 2**24 - 2  # a code and a position fit 32 bits together


def match(bound: Bound) -> Quantization | Reject:
    length = shape(bound["self"])[-1]
    if length > LARGEST_ROW:
        return Reject(
            f"among {length:,} values; expected at most {LARGEST_ROW:,}, so that a code and its position fit 32 bits"
        )
    return Quantization({} if bound.element.floating else {"self": Activation(None)}, Plain())


def lower(lowering: Lowering) -> Node:
    bound = lowering.bound
    call = lowering.call(TOPK, input=lowering.node("self"), k=int(bound["k"]), largest=bool(bound["largest"]))
    return lowering.part(call, POSITIONS)


# ---- the C kernel --------------------------------------------------------------------------------------------


def _work(call: Call) -> Work:
    terms = "calls spans spans*count spans*count*channels"
    return loops(terms, channels=call.shape("input")[-1], count=call["k"])


def _numbers(call: Call) -> tuple[int, ...]:
    return call.shape("input")[-1], call["k"], int(call["largest"])


def _vector_work(call: Call) -> Work:
    terms = "calls spans spans*count spans*count*channels/4"
    return loops(terms, channels=call.shape("input")[-1], count=call["k"])


_ONE_BY_ONE = by_results({**{f"topk_s{kind.bits}": kind for kind in CODES}, "topk_f32": FLOAT32}, _numbers, _work)
_FOUR_AT_A_TIME = by_results({"topk_s8__mve": INT8}, _numbers, _vector_work)
KERNELS = KernelTable((*(replace(row, cores=(Core.MVE,)) for row in _FOUR_AT_A_TIME.rows), *_ONE_BY_ONE.rows))


def samples(draw: CaseDraw) -> dict[str, Any]:
    channels = draw.channels()
    sizes = (*draw.sizes(5, 0, 3), channels)
    kind = draw.element(FLOAT32)
    return {
        "input": draw.numbers(sizes) if kind.floating else draw.codes(sizes, kind),
        "k": draw.whole(1, channels),
    }


TOPK = Operator(
    name="cortado::topk",
    summary="the positions of the largest or smallest values along a dimension, in order; those values",
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True),
    element=INT32,
    extra_results=(Result(VALUES, output_shape, ElementOf(("input",))),),
    constraints="of equal codes, the first",
    no_pte="ExecuTorch has no int8 kernel",
    samples=samples,
)

BEST_PATTERN = Pattern(aten=(BEST,), match=match, lower=lower, in_float=_first_of_equal)
REFUSED_PATTERN = Pattern(
    aten=(aten.topk.default, aten.sort.default, aten.sort.stable, aten.argsort.default, aten.argsort.stable),
    match=refuse,
    lower=lower,
)
TOPK_REWRITE = Rewrite(aten=(aten.topk.default,), rewrite=topk_to_best, any_element=True)
SORT_REWRITE = Rewrite(aten=(aten.sort.default, aten.sort.stable), rewrite=sort_to_best, any_element=True)
ARGSORT_REWRITE = Rewrite(aten=(aten.argsort.default, aten.argsort.stable), rewrite=argsort_to_best, any_element=True)


# ---- order forms -----------------------------------------------------------------------------------------


def _in_order(self: Tensor, low: int, high: int, dim: int) -> list[tuple[Tensor, Tensor]]:
    """Returns the values at two ranks of a dimension in ascending order, counted from 0, and their positions."""
    size = self.shape[dim]
    near = high < size - low
    found = torch.topk(self, high + 1 if near else size - low, dim=dim, largest=not near)
    places = (low, high) if near else (size - 1 - low, size - 1 - high)
    return [(found[0].narrow(dim, place, 1), found[1].narrow(dim, place, 1)) for place in places]


def _at(self: Tensor, place: int, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    (values, positions), _ = _in_order(self, place, place, dim)
    return (values, positions) if keepdim else (values.squeeze(dim), positions.squeeze(dim))


def kth_value(self: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return _at(self, k - 1, dim, keepdim)


def median_along(self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Returns the median (of an even number of values the lower middle one, as in torch) and its position."""
    return _at(self, (self.shape[dim] - 1) // 2, dim, keepdim)


def median_of_all(self: Tensor) -> Tensor:
    return median_along(self.reshape(-1), 0)[0]


def quantile(
    self: Tensor, q: float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """Computes the q-th quantile, interpolated if its rank lies between two of the sorted values."""
    ranks = len(self.shape)
    source = self.reshape(-1) if dim is None else self
    axis = -1 if dim is None else dim
    place = q * (source.shape[axis] - 1)
    if interpolation == "nearest":
        place = float(round(place))
    low, high = math.floor(place), math.ceil(place)
    weight = {"linear": place - low, "nearest": 0.0, "lower": 0.0, "higher": 1.0, "midpoint": 0.5}[interpolation]
    (below, _), (above, _) = _in_order(source, low, high, axis)
    result = below if low == high or weight == 0.0 else above if weight == 1.0 else torch.lerp(below, above, weight)
    if keepdim:
        return result.reshape([1] * ranks) if dim is None else result
    return result.squeeze(axis)


def quantile_shape(
    self: Tensor, q: float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """Returns a tensor with the shape of a quantile. Some versions of torch read the value of q to determine it."""
    return self.amin(() if dim is None else dim, keepdim)


MEDIAN = Decomposition(aten=(aten.median.default, aten.nanmedian.default), function=median_of_all)
MEDIAN_ALONG = Decomposition(aten=(aten.median.dim, aten.nanmedian.dim), function=median_along)
KTH_VALUE = Decomposition(aten=(aten.kthvalue.default,), function=kth_value)
QUANTILE = Decomposition(aten=(aten.quantile.scalar, aten.nanquantile.scalar), function=quantile)
