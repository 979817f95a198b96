"""Truth values: 0 and 1 as real numbers inside a model, booleans (a view of the same bytes) or integers at its border.

Rules for comparisons, logic and conversions. Comparisons of integers, with one another and with numbers, are exact, in
32 bits; truth values are compared as 0 and 1, real numbers as codes.
"""

from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.element import BOOL
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.ir.domain import DomainRule, Interval, Making, overloads
from cortado.ir.facts import dtype, wanted_element
from cortado.ir.graph import Bound, add_call, is_call, shape
from cortado.ir.op import Lowering, Operator, Pattern
from cortado.ir.roles import Mask, Plain, Quantization
from cortado.ir.schemas import Functions
from cortado.ops.elementwise.activation import TRUTH, all_codes, table
from cortado.ops.elementwise.binary import broadcast_to
from cortado.ops.elementwise.compare import COMPARED, COMPARED_IDS
from cortado.ops.elementwise.pointwise import calls_of
from cortado.ops.float_graph import add_constant, add_view
from cortado.ops.integer.calculate import How
from cortado.ops.integer.forms import both, bounds_by, bounds_of, words_by
from cortado.ops.integer.words import broadcast_word, integer_in, is_number, known_number, number_as
from cortado.ops.io.widen import WIDEN
from cortado.ops.meaning import ABOVE, BELOW, EQUAL, CallKind, calls

# ---- truth -----------------------------------------------------------------------------------------------

aten = torch.ops.aten

_LIBRARY = Functions()
for _name, _kind in (("as_truth", torch.bool), ("as_integer", torch.int64)):
    _LIBRARY.define(f"{_name}(Tensor self) -> Tensor")
    _LIBRARY.impl(_name, lambda self, kind=_kind: self.to(kind), "CompositeExplicitAutograd")
    _LIBRARY.impl(_name, lambda self, kind=_kind: torch.empty_like(self, dtype=kind), "Meta")
AS_TRUTH = torch.ops.cortado.as_truth.default
AS_INTEGER = torch.ops.cortado.as_integer.default


def reference(*, input: Tensor) -> Tensor:
    return input.contiguous().view(torch.bool)


def match(bound: Bound) -> Quantization | Reject:
    return Quantization({"self": Mask()}, Plain())


def truth_codes(lowering: Lowering, name: str = "self") -> Node:
    """Returns an operand as codes 0 and 1."""
    source, known = lowering.node(name), lowering.q(name)
    if known == TRUTH:
        return source
    return table(lowering, source, (all_codes() != known.zero_point).to(torch.int8))


def lower(lowering: Lowering) -> Node:
    return lowering.call(TRUTH_VIEW, input=truth_codes(lowering))


def lower_integer(lowering: Lowering) -> Node:
    return lowering.call(WIDEN, input=truth_codes(lowering), bytes=1, sign=1)


TRUTH_VIEW = Operator(
    name="cortado::truth",
    summary="truth values as an output of the model: no kernel, no copy",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=None,
    view=True,
    element=BOOL,
    no_pte="a .pte gives real numbers",
)

AS_TRUTH_PATTERN = Pattern(aten=(AS_TRUTH,), match=match, lower=lower)
AS_INTEGER_PATTERN = Pattern(aten=(AS_INTEGER,), match=match, lower=lower_integer)


# ---- truth forms -----------------------------------------------------------------------------------------

COMPARISONS: dict[OpOverload, int] = {target: found.accepts for target, found in calls(CallKind.COMPARE).items()}


def compares(node: Node) -> bool:
    """Whether a call compares real numbers, possibly inside a function of one tensor."""
    return is_call(node, COMPARED) or any(target in COMPARISONS for target in calls_of(node))


# ---- comparisons ---------------------------------------------------------------------------------------------


def _is_real_tensor(value: Any) -> bool:
    """Whether an operand is a tensor of real numbers, and not a constant with only one number."""
    return isinstance(value, Node) and dtype(value).is_floating_point and not is_number(value)


def compared(making: Making, bound: Bound) -> Node | None:
    left, right = bound["self"], bound["other"]
    accepts = COMPARISONS[bound.node.target]  # type: ignore[index]
    integers = not (_is_real_tensor(left) or _is_real_tensor(right))
    if integers and not all(making.holds_truth(side) or is_number(side) for side in (left, right)):
        return _compared_words(making, bound, accepts)
    return _compared_reals(making, bound, accepts)


def _compared_words(making: Making, bound: Bound, accepts: int) -> Node | None:
    like, left, right = bound.node, making.word(bound["self"]), bound["other"]
    if left is None:
        return None
    if is_number(right):
        number = integer_in(right)
        beside = None if number is None else number_as(dtype(bound["self"]), number)
        found = None if beside is None else add_call(like, COMPARED_IDS, left, [], beside, accepts)
        return None if found is None else broadcast_to(bound, found, shape(like))
    other = making.word(right)
    if other is None:
        return None
    sides = [broadcast_word(like, side, shape(like)) for side in (left, other)]
    return add_view(like, add_call(like, COMPARED_IDS, sides[0], sides[1:], 0, accepts), shape(like))


def compared_number(like: Node, left: Node, target: Any, right: Any) -> Node:
    """Compares real numbers with one number: as a function of one tensor, or in float32 as a comparison."""
    if not wanted_element(like).floating:
        return add_call(like, aten.to.dtype, add_call(like, target, left, right), torch.float32)
    beside = torch.full((1,) * max(len(shape(left)), 1), float(known_number(right)))
    return add_call(like, COMPARED, left, add_constant(like, "number", beside), COMPARISONS[target])


def _compared_reals(making: Making, bound: Bound, accepts: int) -> Node | None:
    like, right = bound.node, bound["other"]
    left = making.real(bound["self"])
    if left is None:
        return None
    if is_number(right):  # a function of one tensor, once that is real
        return compared_number(like, left, like.target, right)
    other = making.real(right)
    if other is None:
        return None
    return add_call(like, COMPARED, *(broadcast_to(bound, side, shape(like)) for side in (left, other)), accepts)


COMPARED_RULE = DomainRule(aten=tuple(COMPARISONS), truth=compared)


# ---- logic ---------------------------------------------------------------------------------------------------


def both_truths(making: Making, bound: Bound, target: Any, *rest: Any) -> Node | None:
    """Adds a call on two truth values, broadcast to the result's shape."""
    given = [bound["self"], bound["other"]]
    sides = [_truth_of(making, bound.node, side) for side in given]
    if sides[0] is None or sides[1] is None:
        return None
    return add_call(
        bound.node, target, *(broadcast_to(bound, side, shape(bound.node)) for side in sides if side), *rest
    )


def _truth_of(making: Making, like: Node, value: Any) -> Node | None:
    if is_number(value):
        return add_constant(like, "truth", torch.full(shape(like), float(known_number(value) != 0)))
    return making.truth(value)


def negated(like: Node, truth: Node) -> Node:
    return compared_number(like, truth, aten.eq.Scalar, 0)


def _negation(making: Making, bound: Bound) -> Node | None:
    truth = making.truth(bound["self"])
    return None if truth is None else negated(bound.node, truth)


def _quantified(making: Making, bound: Bound, target: Any) -> Node | None:
    source = making.truth(bound["self"])
    if source is None:
        return None
    dims = bound.get("dim", bound.get("dims"))
    given = list(range(len(shape(source)))) if dims is None else [dims] if isinstance(dims, int) else list(dims)
    return add_call(bound.node, target, source, given, bool(bound.get("keepdim", False)))


AND_RULE = DomainRule(
    aten=overloads(aten.logical_and, aten.bitwise_and, aten.__and__),
    bounds=bounds_by(How.AND),
    words=words_by(How.AND),
    truth=lambda making, bound: both_truths(making, bound, aten.minimum.default),
)
OR_RULE = DomainRule(
    aten=overloads(aten.logical_or, aten.bitwise_or, aten.__or__),
    bounds=bounds_by(How.OR),
    words=words_by(How.OR),
    truth=lambda making, bound: both_truths(making, bound, aten.maximum.default),
)
XOR_RULE = DomainRule(
    aten=overloads(aten.logical_xor, aten.bitwise_xor, aten.__xor__),
    bounds=bounds_by(How.XOR),
    words=words_by(How.XOR),
    truth=lambda making, bound: both_truths(making, bound, COMPARED, BELOW | ABOVE),
)
NOT_RULE = DomainRule(
    aten=tuple(calls(CallKind.NOT)),
    bounds=lambda making, bound: bounds_of(How.XOR, making.interval(bound["self"]), Interval(-1, -1)),
    words=lambda making, bound: both(making, bound, bound["self"], -1, How.XOR),
    truth=_negation,
)


def _quantifier(packet: Any, target: Any) -> DomainRule:
    """Returns the rule for any or all; on uint8 they return 0 and 1 of that type."""

    def words(making: Making, bound: Bound) -> Node | None:
        found = _quantified(making, bound, target)
        return None if found is None else add_call(bound.node, AS_INTEGER, found)

    return DomainRule(
        aten=overloads(packet),
        bounds=lambda making, bound: Interval(0, 1),
        words=words,
        truth=lambda making, bound: _quantified(making, bound, target),
    )


ANY_RULE = _quantifier(aten.any, aten.amax.default)
ALL_RULE = _quantifier(aten.all, aten.amin.default)


# ---- conversions ---------------------------------------------------------------------------------------------


def _converted(making: Making, bound: Bound) -> Node | None:
    """Converts integers to another type; a real number has no integer form."""
    return None if _is_real_tensor(bound["self"]) else making.word(bound["self"])


def _converted_bounds(making: Making, bound: Bound) -> Interval | None:
    return making.interval(bound["self"])


def _real(making: Making, bound: Bound) -> Node | None:
    return making.real(bound["self"])


CONVERTED_RULE = DomainRule(
    aten=tuple(calls(CallKind.CONVERT)),
    bounds=_converted_bounds,
    words=_converted,
    truth=lambda making, bound: making.truth(bound["self"]),
    real=_real,
    wraps=True,
    closed=True,
    keeps_truth=True,
)


# ---- one-hot -------------------------------------------------------------------------------------------------


def _one_hot(making: Making, bound: Bound) -> Node | None:
    """Compares each id with every class."""
    like, word, count = bound.node, making.word(bound["self"]), int(bound["num_classes"])
    if word is None or count <= 0:
        return None
    classes = add_constant(like, "classes", torch.arange(count).expand(shape(like)))
    ids = broadcast_word(like, add_view(like, word, (*shape(word), 1)), shape(like))
    return add_call(like, AS_INTEGER, add_call(like, COMPARED_IDS, ids, [classes], 0, EQUAL))


ONE_HOT_RULE = DomainRule(aten=(aten.one_hot.default,), bounds=lambda making, bound: Interval(0, 1), words=_one_hot)
