"""Comparisons of float32 values that are integers, rewritten as integer comparisons, so that no int8 code rounds them.

`mask.float().sum(1) == 3` compares integers that float32 holds exactly. `ids.float() / 10 >= 0.5` is a function of one
integer: the integers for which it holds are found here by computing it as torch does, and it becomes bounds of the
integer. `hits / tries > 0.25` is a quotient of two integers: it becomes a comparison of products of numerators and
denominators, even if the quotients were moved. A function of an integer that is compared with another integer is
rounded down or up to one. Conversions of such numbers back to integers are dropped; `(hits.float() /
10).floor().long()` becomes a table lookup by the integer.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from cortado.base.element import INT32
from cortado.base.findings import Finding, FindingKind
from cortado.frontend.rewrite.domains import DOMAINS, domain_of, interval
from cortado.ir.analysis import Analysis, rewrite_each
from cortado.ir.domain import EXACT_IN_FLOAT, WORDS, DomainKind, Interval
from cortado.ir.facts import IN_FLOAT, VALUE, FactKey, dtype
from cortado.ir.graph import Bound, add_call, bind, call_again, computed_call, describe, shape
from cortado.ops.elementwise.pointwise import is_bytes, is_pointwise, uniform_value
from cortado.ops.float_graph import add_constant, constant_data, is_constant
from cortado.ops.integer.words import integer_in, is_number, known_number
from cortado.ops.meaning import (
    ABOVE,
    BELOW,
    EQUAL,
    MEANS,
    CallKind,
    Rounding,
    dimensions_of_windows,
    meaning_of,
    means,
    sum_factors,
)
from cortado.ops.probing import attempt

aten = torch.ops.aten
Tensor = torch.Tensor

MOST_TRIED = 2**17  # integers for which a function is evaluated exhaustively
MOST_SUMMED, MOST_NESTED = 64, 32  # values in a window whose mean is compared; sums and products in one another
MOST_LISTED = 2**12  # entries of a table
MOST_MOVED = 2**20  # values of a tensor that are tracked through moves
MOST_DIVIDED = 2**12  # the limit of numerator and denominator of a constant divisor
UNKNOWN_DIVISOR = 2**12  # the largest divisor for which comparing a quotient with any number is exact


def compare_integers(module: GraphModule) -> None:
    """Compares integers that are held in float32 as integers. Rewrites in place; a graph without such integers is
    unchanged."""
    graph = module.graph
    DOMAINS.infer(graph)
    rewrite_each(graph.nodes, _exact)
    graph.eliminate_dead_code()
    CURVES.forget(graph.nodes)


def _exact(node: Node) -> Node | None:
    if not isinstance(VALUE.of(node), Tensor):
        return None
    if means(node, CallKind.COMPARE):
        return _compared(node)
    if means(node, CallKind.CONVERT) and not dtype(node).is_floating_point:
        source = node.all_input_nodes[0]
        if dtype(source).is_floating_point and domain_of(source).kind is DomainKind.INTEGER:
            return add_call(node, aten.to.dtype, Integers(node).of(source), dtype(node))
        return _rounded(node, source, Rounding.TOWARD_ZERO) or _looked_up(node, source)
    meaning = meaning_of(node)
    if meaning is None or meaning.rounding is None or not dtype(node).is_floating_point:
        return None
    return _rounded(node, node.all_input_nodes[0], meaning.rounding)


def _compared(node: Node) -> Node | None:
    bound = bind(node)
    sides = [side for side in (bound["self"], bound["other"]) if not is_number(side)]
    numbers = [side for side in (bound["self"], bound["other"]) if is_number(side)]
    exact = all(integer_in(number) is not None for number in numbers)
    if not any(dtype(side).is_floating_point for side in sides) and (exact or not sides):
        return None
    found = _compared_quotients(node)
    if found is not None:
        return found
    if len(numbers) == 1:
        return _of_extreme(node, bound["self"]) or _of_one(node, bound["self"])
    kinds = {domain_of(side).kind for side in sides}
    if len(sides) == 2 and DomainKind.REAL in kinds and len(kinds) == 2:
        return _beside_integer(node)
    if len(sides) < 2 or DomainKind.REAL in kinds or kinds == {DomainKind.TRUTH}:
        return None
    integers = Integers(node)
    target: Any = node.target
    return add_call(node, target, *(integers.of(side) for side in sides))


def _of_extreme(node: Node, side: Node) -> Node | None:
    """Rewrites a comparison of the largest or smallest of quotients with a number: of some of them, or of all."""
    along = _extreme_along(side)
    if along is None or domain_of(side).kind is not DomainKind.REAL:
        return None
    source, dims, keepdim, largest = along
    quotient, accepts = _quotient(source), _accepts(node)
    if quotient is None or accepts in (EQUAL, BELOW | ABOVE):
        return None
    products, target = _Products(node), node.target
    found = _compared(products.call(target, source, bind(node)["other"]))
    if found is None:
        return None
    every = bool(accepts & (BELOW if largest else ABOVE))
    made = products.call(aten.all.dims if every else aten.any.dims, found, dims, keepdim)
    if every or not quotient.may_be(negative=False):
        return made
    equal = _compared(products.call(aten.eq.Tensor, source, source))
    if equal is None:
        return None  # 0 / 0 is not equal to itself, and the extreme of every row that has one
    return products.call(aten.logical_and.default, made, products.call(aten.all.dims, equal, dims, keepdim))


def _extreme_along(side: Node) -> tuple[Node, list[int], bool, bool] | None:
    """Returns the operand and the dimensions of a call that gives an extreme value; whether these are kept, and whether
    it is the largest."""
    if side.target is operator.getitem and side.args[1] == 0:
        side = side.all_input_nodes[0]
    meaning = meaning_of(side)
    if meaning is None or meaning.kind is not CallKind.EXTREME or not meaning.value:
        return None
    bound = bind(side)
    source, dim = bound["self"], bound.get("dim")
    dims = [dim] if isinstance(dim, int) else list(dim or range(len(shape(source))))
    return source, dims, bool(bound.get("keepdim", False)), meaning.largest


def _mean_parts(side: Node) -> tuple[Node, int] | None:
    """Returns the sum of integers whose mean a call computes, and their count; also for means of equally large
    means."""
    bound = bind(side)
    source, dims = bound["self"], bound.get("dim")
    inner = _quotient(source)
    if inner is None or isinstance(inner.denominator, Node):
        return None
    times, counted = inner.denominator or 1, source
    if domain_of(source).kind is DomainKind.REAL:  # sums of float32 that exceed 32 bits are no integers
        counted = add_call(side, aten.to.dtype, inner.numerator, torch.float32)
    if not means(side, CallKind.MEAN):
        parts = _window_parts(bound, counted)
        return None if parts is None else (parts[0], parts[1] * times)
    given = list(dims) if dims is not None else list(range(len(shape(source))))
    total = add_call(side, aten.sum.dim_IntList, counted, given, bool(bound.get("keepdim", False)))
    return total, VALUE.must(source).numel() // max(VALUE.must(total).numel(), 1) * times


def _window_parts(bound: Bound, found: Node) -> tuple[Node, int] | None:
    """Returns the same for small windows that all have the same number of values, those of padding being zeros."""
    like = bound.node
    if means(like, CallKind.ADAPTIVE_MEAN):
        rank = len(bound["output_size"])
        sizes = list(zip(shape(found)[-rank:], shape(like)[-rank:], strict=True))
        if any(long % short for long, short in sizes):
            return _uneven_parts(like, found, rank)
        kernel = [long // short for long, short in sizes]
        uneven, stride, padding = False, kernel, [0] * rank
    else:
        rank = dimensions_of_windows(like)
        kernel, stride, padding = (_each(bound.get(name), rank) for name in ("kernel_size", "stride", "padding"))
        uneven = bool(bound.get("ceil_mode")) or (any(padding) and not bound.get("count_include_pad", True))
    count = bound.get("divisor_override") or math.prod(kernel)
    if uneven or count < 0 or math.prod(kernel) > MOST_SUMMED:
        return None
    if any(padding):
        found = add_call(like, aten.constant_pad_nd.default, found, [end for end in padding[::-1] for _ in range(2)])
    for at, (length, step) in enumerate(zip(kernel, stride or kernel, strict=True)):
        found = add_call(like, aten.unfold.default, found, len(shape(like)) - rank + at, length, step)
    return add_call(like, aten.sum.dim_IntList, found, list(range(-rank, 0))), count


def _uneven_parts(like: Node, found: Node, rank: int) -> tuple[Node, int] | None:
    """Returns the same for windows of an adaptive mean, which may overlap: sums over their lengths' common multiple."""
    products, common = _Products(like), 1
    for dim in range(-rank, 0):
        long, short = shape(found)[dim], shape(like)[dim]
        ends = [(at * long // short, -(-(at + 1) * long // short)) for at in range(short)]
        multiple = math.lcm(*(end - start for start, end in ends))
        if short > MOST_SUMMED or common * multiple > MOST_DIVIDED:
            return None
        windows = [products.call(aten.slice.Tensor, found, dim, *each) for each in ends]
        sums = [products.call(aten.sum.dim_IntList, window, [dim], True) for window in windows]
        weights = [multiple // (end - start) for start, end in ends]
        found = products.call(aten.cat.default, list(map(products.times, sums, weights)), dim)
        common *= multiple
    return found, common


def _each(given: Any, rank: int) -> list[int]:
    """Returns an argument for each dimension, given one for each or one for all."""
    sizes = [given] if isinstance(given, int) else list(given or ())
    return sizes * rank if len(sizes) == 1 else sizes


# ---- equal real numbers ------------------------------------------------------------------------------------------


def is_equality(node: Node) -> bool:
    """Whether a call compares with == or !=."""
    return means(node, CallKind.COMPARE) and _accepts(node) in (EQUAL, BELOW | ABOVE)


def _accepts(comparison: Node) -> int:
    """Returns the relations that a comparison accepts."""
    found = meaning_of(comparison)
    assert found is not None
    return found.accepts


def _passes(node: Node) -> bool:
    """Whether a call returns the numbers of its first operand."""
    return means(node, CallKind.COPY, CallKind.CONVERT)


def compares_reals(node: Node) -> bool:
    """Whether a comparison involves a tensor of real numbers; infinity is exact as a code, and NaN needs none."""
    sides = [bind(node)["self"], bind(node)["other"]]
    finite = all(not is_number(side) or math.isfinite(known_number(side)) for side in sides)
    tensors = [side for side in sides if isinstance(side, Node) and not is_number(side)]
    real = any(domain_of(side).kind is DomainKind.REAL for side in tensors)
    return real and finite and sides[0] is not sides[1]


def equality(node: Node) -> Finding:
    return Finding(
        kind=FindingKind.EQUAL_REALS,
        text=(
            f"{describe(node)} tests real numbers for equality: codes represent only some numbers, so two that differ "
            "by less than a step are equal, and a number between two codes never occurs; compare with bounds "
            "((x - y).abs() < 0.01), or compare integers"
        ),
        found=None,
        limit=0.0,
        tensor=node.name,
    )


# ---- integers that float32 holds -----------------------------------------------------------------------------


class Integers:
    """Rewrites numbers held in float32 as int64, computed in integers."""

    def __init__(self, like: Node) -> None:
        self.like = like

    def of(self, node: Node) -> Node:
        kind = dtype(node)
        if kind == torch.int64:
            return node
        if not kind.is_floating_point:  # float32 results from a byte don't wrap around as bytes do
            return add_call(self.like, aten.to.dtype, node, torch.int64)
        if is_constant(node):
            return add_constant(self.like, "integers", constant_data(node).to(torch.int64))
        if _passes(node):
            return self.of(node.all_input_nodes[0])
        kept = {key: value for key, value in node.kwargs.items() if key != "dtype"}
        args, kwargs = map_arg((node.args, kept), lambda one: one if dtype(one) == torch.bool else self.of(one))
        target: Any = node.target
        numbers = {key: _integer(one) for key, one in kwargs.items()}
        made = add_call(self.like, target, *map(_integer, args), **numbers)
        IN_FLOAT.note(made, True)
        return made


def _integer(value: Any) -> Any:
    return int(value) if isinstance(value, float) else value


# ---- quotients of integers -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Quotient:
    """A quotient of integers, numerator / denominator; an integer has the denominator None. A constant denominator is
    positive."""

    numerator: Node
    denominator: Node | int | None

    @property
    def divisors(self) -> Interval | None:
        return interval(1 if self.denominator is None else self.denominator)

    def may_be(self, *, negative: bool) -> bool:
        """Whether the denominator can be negative, or else zero."""
        known = self.divisors
        return known is None or (known.low < 0 if negative else known.low <= 0 <= known.high)


def _quotient(side: Any, depth: int = 0) -> _Quotient | None:
    """Reads a value as a quotient of two integers, or as one integer; a mean is a sum over a number."""
    if not isinstance(side, Node) or is_number(side) or depth > MOST_NESTED:
        return None
    while dtype(side).is_floating_point and _passes(side):
        side = side.all_input_nodes[0]
    if domain_of(side).kind is not DomainKind.REAL:
        return _Quotient(side, None)
    if means(side, *MEANS):
        mean = _mean_parts(side)
        return None if mean is None else _Quotient(*mean)
    if _only_moves(side):
        return _moved(side)
    meaning = meaning_of(side)
    rule = _COMPUTED.get(meaning.kind) if meaning is not None else None
    return None if rule is None else rule(side, depth)


def _of_two(side: Node, depth: int) -> _Quotient | None:
    """Returns the quotient that a call computes."""
    bound = bind(side)
    above, below = bound["self"], bound["other"]
    if is_number(above) or domain_of(above).kind is DomainKind.REAL:
        return None
    if is_number(below):
        return _divided(above, float(known_number(below)))
    return None if domain_of(below).kind is DomainKind.REAL else _Quotient(above, below)


def _only_moves(node: Node) -> bool:
    """Whether a call only moves values of tensors, which is tested by running it on the indices of the elements."""
    sources = node.all_input_nodes
    if node.op != "call_function" or not sources or is_pointwise(node):
        return False
    if not all(isinstance(VALUE.of(one), Tensor) for one in (*sources, node)):
        return False
    counts = [math.prod(shape(one)) for one in sources]
    count = sum(counts)
    if not 0 < count <= MOST_MOVED:
        return False

    def function(value: Tensor) -> Tensor:
        parts = {one: part.reshape(shape(one)) for one, part in zip(sources, value.split(counts), strict=True)}
        found: Tensor = computed_call(node, parts.__getitem__)
        return found

    places = torch.arange(count).double()
    found = attempt(function, places)
    if found is None or not torch.equal(found, found.round()) or not bool(((found >= 0) & (found < count)).all()):
        return False
    random = torch.randn(count, generator=torch.Generator().manual_seed(1)).double()
    for values in (random, places.roll(-1)):  # rolled, no value has its old rank everywhere: a maximum moves nothing
        moved = attempt(function, values)
        if moved is None or not torch.equal(moved, values[found.to(torch.int64)]):
            return False
    return True


def _moved(move: Node) -> _Quotient | None:
    """Returns the quotient of moved quotients: the same move of numerators and of denominators."""
    found = {one: _quotient(one) or _whole(one) for one in move.all_input_nodes}
    parts = {one: part for one, part in found.items() if part is not None}
    if len(parts) < len(found):
        return None
    divisors = [part.denominator or 1 for part in parts.values()]
    above = _move_again(move, {one: part.numerator for one, part in parts.items()})
    if divisors.count(divisors[0]) == len(divisors) and not isinstance(divisors[0], Node):
        return _Quotient(above, divisors[0] if divisors[0] != 1 else None)
    return _Quotient(above, _move_again(move, dict(zip(parts, divisors, strict=True))))


def _whole(side: Node) -> _Quotient | None:
    """Returns a uniform integer as a quotient, for use among quotients."""
    return _Quotient(side, None) if integer_in(side) is not None else None


def _move_again(move: Node, parts: Mapping[Node, Node | int]) -> Node:
    """Repeats a move on other integers, each in the shape of the tensor that it replaces."""

    def again(one: Node) -> Node:
        part, sizes = parts[one], list(shape(one))
        if not isinstance(part, Node):
            return add_constant(move, "divisor", torch.full(sizes, part))
        whole = part if len(parts) == 1 else Integers(move).of(part)
        return whole if shape(whole) == shape(one) else add_call(move, aten.expand.default, whole, sizes)

    return call_again(move, again)


def _scaled(side: Node, depth: int) -> _Quotient | None:
    """Returns a quotient times a constant that is a fraction of small integers."""
    operands = (bind(side)["self"], bind(side)["other"])
    numbers = [known_number(one) for one in operands if is_number(one)]
    found = [_quotient(one, depth + 1) for one in operands if not is_number(one)]
    if len(numbers) != 1 or not math.isfinite(numbers[0]) or found[0] is None:
        return None
    fraction, products = Fraction(float(np.float32(numbers[0]))), _Products(side)
    if max(abs(fraction.numerator), fraction.denominator) > MOST_DIVIDED or not _fits(found[0], fraction.numerator):
        return None
    above = products.times(found[0].numerator, fraction.numerator)
    return _Quotient(above, products.times(found[0].denominator, fraction.denominator))


def _summed(side: Node, depth: int) -> _Quotient | None:
    """Returns a sum of integers that are divided by powers of two, as float32 adds them without rounding."""
    products, terms = _Products(side), list[tuple[Node | int, int]]()  # numerators and denominators
    for name, factor in zip(("self", "other"), sum_factors(side), strict=True):
        found = _dyadic(bind(side)[name], depth)
        if found is None or not factor.is_integer():
            return None
        terms.append((products.times(found[0], int(factor)), found[1]))
    common = max(below for _, below in terms)
    scaled = [products.times(above, common // below) for above, below in terms]
    total = products.call(aten.add.Tensor, *sorted(scaled, key=lambda one: not isinstance(one, Node)))
    return _Quotient(total, common)


def _dyadic(operand: Any, depth: int) -> tuple[Node | int, int] | None:
    """Returns an integer and the power of two by which it is divided."""
    if is_number(operand):
        number = float(np.float32(known_number(operand)))
        parts: tuple[Node | int, int] = number.as_integer_ratio() if abs(number) <= EXACT_IN_FLOAT else (0, 0)
    else:
        found = _quotient(operand, depth + 1)
        if found is None or isinstance(found.denominator, Node):
            return None
        parts = found.numerator, found.denominator or 1
    return parts if 0 < parts[1] <= MOST_DIVIDED and parts[1] & (parts[1] - 1) == 0 else None


def _divided(above: Node, number: float) -> _Quotient | None:
    """Returns an integer divided by a constant that is a fraction of small integers."""
    if not math.isfinite(number) or number == 0:
        return None
    fraction = Fraction(float(np.float32(number)))
    times, count = abs(fraction.denominator), abs(fraction.numerator)
    if max(times, count) > MOST_DIVIDED:
        return None
    times = times if number > 0 else -times
    if times == 1:
        return _Quotient(above, count)
    return _Quotient(add_call(above.next, aten.mul.Tensor, Integers(above.next).of(above), times), count)


_COMPUTED: dict[CallKind, Callable[[Node, int], _Quotient | None]] = {
    CallKind.PRODUCT: _scaled,
    CallKind.SUM: _summed,
    CallKind.QUOTIENT: _of_two,
}


def _compared_quotients(node: Node) -> Node | None:
    """Rewrites a comparison of a quotient with a number, an integer or another quotient as one of integer products."""
    accepts = _accepts(node)
    if accepts == BELOW | ABOVE:  # 0 / 0 differs from everything
        equal = _quotients_by(node, EQUAL)
        return None if equal is None else add_call(node, aten.logical_not.default, equal)
    return _quotients_by(node, accepts)


def _quotients_by(node: Node, accepts: int) -> Node | None:
    bound = bind(node)
    left = _quotient(bound["self"])
    if is_number(bound["other"]):
        if left is None or left.denominator is None or _is_curve(bound["self"]):
            return None
        return _beside_number(_Products(node), left, float(known_number(bound["other"])), accepts)
    right = _quotient(bound["other"])
    if left is None or right is None or left.denominator is right.denominator is None:
        return None
    if not (_fits(left, right.denominator) and _fits(right, left.denominator)):
        return None
    return _Products(node).compared(left, right, accepts)


def _fits(quotient: _Quotient, factor: Node | int | None) -> bool:
    """Whether 32 bits hold the numerator times a number, as far as that is known."""
    known = domain_of(quotient.numerator).interval
    return not isinstance(factor, int) or known is None or known.times(Interval(factor, factor)).within(WORDS)


def _beside_number(products: "_Products", quotient: _Quotient, number: float, accepts: int) -> Node | None:
    """Compares a quotient with the smallest fractions that float32 rounds to the number, and to more than it."""
    assert quotient.denominator is not None
    if not math.isfinite(number):
        return None
    divisors = quotient.divisors
    most = UNKNOWN_DIVISOR if divisors is None else min(UNKNOWN_DIVISOR, max(abs(divisors.low), abs(divisors.high), 1))
    most = quotient.denominator if isinstance(quotient.denominator, int) else most
    rounded = np.float32(number)
    reached = _first_fraction(*_lower_end(rounded), most)
    passed = _first_fraction(*_lower_end(np.nextafter(rounded, np.float32(np.inf))), most)
    holds = [bool(accepts & part) for part in (BELOW, EQUAL, ABOVE)]
    ends = [end for end, one, two in zip((reached, passed), holds, holds[1:], strict=False) if one != two]
    if len(ends) == 2 and ends[0] == ends[1]:
        return None  # never equal, for any possible divisor
    found = [products.reaches(quotient, end, below=holds[0] if end is ends[0] else not holds[0]) for end in ends]
    if len(found) == 1:
        return found[0]
    return products.call(aten.logical_or.default if holds[0] else aten.logical_and.default, *found)


def _lower_end(number: np.float32) -> tuple[Fraction, bool]:
    """Returns the lower end of the real numbers that float32 rounds to this one, and whether it is included (ties to
    even)."""
    before = np.nextafter(number, np.float32(-np.inf))
    even = int(number.view(np.uint32)) % 2 == 0
    return (Fraction(float(before)) + Fraction(float(number))) / 2, even


def _first_fraction(end: Fraction, included: bool, most: int) -> Fraction:
    """Returns the smallest fraction beyond an end with a denominator of at most `most`."""
    found = end.limit_denominator(most)
    if found > end or (found == end and included):
        return found
    # The next one in the Farey sequence of this order.
    above, below = found.numerator, found.denominator
    divisor = most if below == 1 else (rest := pow(-above, -1, below)) + (most - rest) // below * below
    return Fraction((divisor * above + 1) // below, divisor)


@dataclass(frozen=True)
class _Products:
    """Comparisons of quotients by products, inserted at a call. A quotient by zero is infinite; 0 / 0 is NaN."""

    like: Node

    def call(self, target: Any, *arguments: Any, **keywords: Any) -> Node:
        return add_call(self.like, target, *arguments, **keywords)

    def integers(self, value: Any) -> Any:
        return Integers(self.like).of(value) if isinstance(value, Node) else value

    def times(self, value: Node | int | None, factor: Any) -> Any:
        """Adds a product of integers; None is 1."""
        whole, by = (1 if one is None else self.integers(one) for one in (value, factor))
        if not isinstance(whole, Node):
            whole, by = by, whole
        if not isinstance(whole, Node):
            return whole * by
        return whole if by == 1 else self.call(aten.mul.Tensor, whole, by)

    def divided(self, above: Node, below: Any) -> Node:
        """Adds a quotient of integers, rounded down."""
        if isinstance(below, Node):
            return self.call(aten.div.Tensor_mode, above, below, rounding_mode="floor")
        return self.call(aten.div.Scalar_mode, above, below, rounding_mode="floor")

    def counted(self, one: Node, other: Node) -> Node:
        """Adds an integer that is 1 where both hold, 0 elsewhere."""
        return self.call(aten.to.dtype, self.call(aten.logical_and.default, one, other), torch.int64)

    def reaches(self, quotient: _Quotient, end: Fraction, *, below: bool) -> Node:
        """Compares a quotient with a fraction: at least as large, or smaller."""
        accepts = BELOW if below else EQUAL | ABOVE
        if isinstance(quotient.denominator, int):
            return self.plain(self.integers(quotient.numerator), math.ceil(end * quotient.denominator), accepts)
        left = self.times(quotient.numerator, end.denominator)
        right = self.times(quotient.denominator, end.numerator) if end.numerator else 0
        return self._signed(left, right, accepts, [quotient])

    def compared(self, left: _Quotient, right: _Quotient, accepts: int) -> Node:
        sides = self.times(left.numerator, right.denominator), self.times(right.numerator, left.denominator)
        return self._signed(*sides, accepts, [left, right])

    def _signed(self, left: Node, right: Any, accepts: int, quotients: Sequence[_Quotient]) -> Node:
        """Compares the products; reversed where a divisor is negative, and false where 0 is divided by 0."""
        found = self.plain(left, right, accepts)
        signs = [self._is(aten.lt.Scalar, one.denominator) for one in quotients if one.may_be(negative=True)]
        if signs:
            negative = signs[0] if len(signs) == 1 else self.call(aten.logical_xor.default, *signs)
            found = self.call(aten.where.self, negative, self.plain(left, right, _mirrored(accepts)), found)
        zeros = [one for one in quotients if one.may_be(negative=False)]
        if len(zeros) == 2:  # two infinities are compared by their signs
            infinite = self.call(
                aten.logical_and.default, *(self._is(aten.eq.Scalar, one.denominator) for one in zeros)
            )
            signs = [self.call(aten.clamp.default, Integers(self.like).of(one.numerator), -1, 1) for one in zeros]
            found = self.call(aten.where.self, infinite, self.plain(signs[0], signs[1], accepts), found)
        for one in zeros:
            if one.denominator is not None:
                parts = [self._is(aten.ne.Scalar, part) for part in (one.numerator, one.denominator)]
                found = self.call(aten.logical_and.default, found, self.call(aten.logical_or.default, *parts))
        return found

    def _is(self, target: Any, value: Node | int | None) -> Node:
        """Compares a computed integer with 0."""
        assert isinstance(value, Node)
        return self.call(target, Integers(self.like).of(value), 0)

    def plain(self, left: Node, right: Any, accepts: int) -> Node:
        """Compares two integers."""
        packet = getattr(aten, _NAMES[accepts])
        return self.call(packet.Tensor if isinstance(right, Node) else packet.Scalar, left, right)


_NAMES = {BELOW: "lt", BELOW | EQUAL: "le", EQUAL: "eq", EQUAL | ABOVE: "ge", ABOVE: "gt"}


# ---- quotients that are rounded ------------------------------------------------------------------------------


def _rounded(node: Node, side: Node, rounding: Rounding) -> Node | None:
    """Rounds a quotient of two integers to an integer, in integer arithmetic."""
    quotient = _quotient(side) if dtype(side).is_floating_point else None
    if quotient is None or quotient.denominator is None or not _fits(quotient, 2):
        return None
    products = _Products(node)
    above, below = products.integers(quotient.numerator), products.integers(quotient.denominator)
    if rounding is Rounding.NEAREST:
        above, below = products.call(aten.add.Tensor, products.times(above, 2), below), products.times(below, 2)
    found = products.divided(above, below)
    exact = products.plain(products.times(found, below), above, EQUAL)
    if rounding is Rounding.NEAREST:
        odd = products.call(aten.eq.Scalar, products.call(aten.remainder.Scalar, found, 2), 1)
        found = products.call(aten.sub.Tensor, found, products.counted(exact, odd))
    elif rounding is not Rounding.DOWN:
        missed = products.call(aten.logical_not.default, exact)
        toward = missed if rounding is Rounding.UP else products.call(aten.lt.Scalar, found, 0)
        found = products.call(aten.add.Tensor, found, products.counted(missed, toward))
    return products.call(aten.to.dtype, found, dtype(node))


# ---- functions of one integer --------------------------------------------------------------------------------


def _is_curve(side: Node) -> bool:
    """Whether a tensor is an elementwise function of one integer tensor."""
    return domain_of(CURVES.of(side).root).kind is not DomainKind.REAL


def _of_one(node: Node, side: Node) -> Node | None:
    """Rewrites a comparison of a function of one integer with a number as bounds of the integer."""
    root = CURVES.of(side).root
    table = root.op == "placeholder" and is_bytes(root)
    if domain_of(root).kind is not DomainKind.INTEGER or table or shape(root) != shape(node):
        return None
    known = domain_of(root).interval
    if known is not None and known.high - known.low < MOST_TRIED:
        tried = torch.arange(known.low, known.high + 1).to(dtype(root))
        holds = _computed(node, root, tried).tolist()
        switches = [known.low + i for i in range(1, len(holds)) if holds[i] != holds[i - 1]]
        return _between(node, root, switches, first=holds[0])
    return _bisected(node, side, root) if CURVES.of(side).monotone else None


def _beside_integer(node: Node) -> Node | None:
    """Rewrites a comparison of a function of one integer with another integer, by a table of the function rounded down
    or up."""
    bound = bind(node)
    accepts, sides = _accepts(node), [bound["self"], bound["other"]]
    if domain_of(sides[0]).kind is not DomainKind.REAL:
        sides.reverse()
        accepts = _mirrored(accepts)
    side, other = sides
    root = CURVES.of(side).root
    known = domain_of(root).interval
    if domain_of(other).kind is DomainKind.REAL or not _is_listed(root, side) or known is None:
        return None
    values = _computed(side, root, torch.arange(known.low, known.high + 1).to(dtype(root))).double()
    if bool(values.isnan().any()):
        return None
    integer, whole = Integers(node).of(other), values.clamp(INT32.low, INT32.high)
    if accepts in (EQUAL, BELOW | ABOVE):
        equal = [
            _Products(node).plain(_listed(node, root, one), integer, EQUAL) for one in (whole.floor(), whole.ceil())
        ]
        both = add_call(node, aten.logical_and.default, *equal)
        return both if accepts == EQUAL else add_call(node, aten.logical_not.default, both)
    rounded = whole.floor() if accepts in (BELOW, EQUAL | ABOVE) else whole.ceil()
    return _Products(node).plain(_listed(node, root, rounded), integer, accepts)


def _mirrored(accepts: int) -> int:
    """Returns the equivalent relations with the sides exchanged."""
    return (accepts & EQUAL) | (BELOW if accepts & ABOVE else 0) | (ABOVE if accepts & BELOW else 0)


def _is_listed(root: Node, made: Node) -> bool:
    """Whether a tensor that is computed from an integer can be a table over all its values."""
    known = domain_of(root).interval
    listed = known is not None and known.high - known.low < MOST_LISTED
    return listed and domain_of(root).kind is not DomainKind.REAL and shape(root) == shape(made)


def _listed(node: Node, root: Node, values: Tensor) -> Node:
    """Looks integers up by another one, whose interval is known."""
    known = domain_of(root).interval
    assert known is not None
    place = Integers(node).of(root)
    if known.low:
        place = add_call(node, aten.sub.Scalar, place, known.low)
    return add_call(node, aten.index.Tensor, add_constant(node, "table", values.to(torch.int64)), [place])


def _looked_up(node: Node, source: Node) -> Node | None:
    """Replaces an integer computed in float32 from one integer by a table of all its values."""
    root = CURVES.of(source).root
    known = domain_of(root).interval
    if not dtype(source).is_floating_point or not _is_listed(root, source) or known is None:
        return None
    return _listed(node, root, _computed(node, root, torch.arange(known.low, known.high + 1).to(dtype(root))))


@dataclass(frozen=True)
class IntegerCurve:
    """A tensor as an elementwise function of another; of itself if there is no other, or several."""

    root: Node
    monotone: bool = True  # each of its steps is monotone, of one tensor and numbers


class _Curves(Analysis[IntegerCurve]):
    """For each float32 tensor, the tensor that it is an elementwise function of."""

    key = FactKey[IntegerCurve]("cortado_curve")

    def transfer(self, node: Node) -> IntegerCurve:
        itself, passes = IntegerCurve(node), _passes(node)
        if not isinstance(VALUE.of(node), Tensor) or not dtype(node).is_floating_point or node.op != "call_function":
            return itself
        if not is_pointwise(node) and not passes:
            return itself
        operands = [one for one in node.all_input_nodes[: 1 if passes else None] if uniform_value(one) is None]
        found = [self.of(one) for one in operands]
        if len({one.root for one in found}) != 1 or shape(found[0].root) != shape(node):
            return itself
        meaning = meaning_of(node)
        turns = meaning is None or not (meaning.monotone or passes)
        return IntegerCurve(found[0].root, monotone=len(found) == 1 and found[0].monotone and not turns)


CURVES = _Curves()


def _computed(node: Node, root: Node, values: Tensor) -> Tensor:
    """Evaluates a function of `root` at these values."""

    def made(one: Node) -> Any:
        if one is root:
            return values
        number = uniform_value(one)
        return torch.tensor(number, dtype=dtype(one)) if number is not None else _computed(one, root, values)

    if node is root:
        return values
    if _passes(node):
        return made(node.all_input_nodes[0]).to(dtype(node))
    found: Tensor = computed_call(node, made)
    return found


def _bisected(node: Node, side: Node, root: Node) -> Node | None:
    """Finds by bisection where a monotone function reaches a number, and where it exceeds it."""
    number = float(torch.tensor(float(known_number(bind(node)["other"])), dtype=torch.float32))  # as torch compares

    def value(at: int) -> float:
        return float(_computed(side, root, torch.tensor([at]).to(dtype(root))).to(torch.float32))

    rises = value(INT32.low) <= value(INT32.high)
    reached: Callable[[int], bool] = (lambda at: value(at) >= number) if rises else (lambda at: value(at) <= number)
    beyond: Callable[[int], bool] = (lambda at: value(at) > number) if rises else (lambda at: value(at) < number)
    accepts = _accepts(node)
    order = (BELOW, EQUAL, ABOVE) if rises else (ABOVE, EQUAL, BELOW)
    holds = [bool(accepts & part) for part in order]
    ends = [_first(reached), _first(beyond)]
    switches = [end for end, before, after in zip(ends, holds, holds[1:], strict=False) if before != after]
    if len(switches) == 2 and switches[0] == switches[1]:
        switches = []
    return _between(node, root, switches, first=holds[0])


def _first(holds: Callable[[int], bool]) -> int:
    """Returns the first 32-bit integer from which on a comparison holds; one more than the last if there is none."""
    low, high = INT32.low, INT32.high + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _between(node: Node, root: Node, switches: list[int], *, first: bool) -> Node | None:
    """Adds truth values that change at these integers."""
    inside = [at for at in switches if INT32.low < at <= INT32.high]
    first ^= sum(at <= INT32.low for at in switches) % 2 == 1
    if len(inside) > 2:
        return None
    integer = Integers(node).of(root)
    if not inside:  # always, or never; still a function of the input
        return add_call(node, aten.ge.Scalar if first else aten.lt.Scalar, integer, INT32.low)
    if len(inside) == 1:
        return add_call(node, aten.lt.Scalar if first else aten.ge.Scalar, integer, inside[0])
    start, end = inside if not first else inside[::-1]
    above = add_call(node, aten.ge.Scalar, integer, start)
    below = add_call(node, aten.lt.Scalar, integer, end)
    return add_call(node, aten.logical_or.default if first else aten.logical_and.default, above, below)
