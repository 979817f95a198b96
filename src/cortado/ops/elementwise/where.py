"""out = a where mask is not 0, b elsewhere: integers, or codes with the scale and zero point of the output.

One of the two can be a number (for codes, its code); either can have one value for all elements. The condition holds
truth values as 0 and 1 (compare.py); a selection (where, masked_fill)
that is a function of one tensor is a table instead.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT32
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.ir import sampling
from cortado.ir.c_call import Absent, Argument, Bytes, Number, Operand, Row
from cortado.ir.domain import DomainRule, Interval, Making, hull, overloads
from cortado.ir.facts import holds_integers, wanted_element
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.kernel import ONE_ROW, RowRule, Rows
from cortado.ir.kernel_table import KernelRow, KernelTable
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern
from cortado.ir.roles import Activation, Joined, Mask, Plain, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.schemas import Functions
from cortado.ir.work import loops
from cortado.ops.elementwise.binary import broadcast_to
from cortado.ops.float_graph import add_constant, constant_data, is_constant
from cortado.ops.integer.calculate import refused_shapes, words
from cortado.ops.integer.truth import negated, truth_codes
from cortado.ops.integer.words import broadcast_word, is_number, known_number, word_of
from cortado.ops.loops import ELEMENTS
from cortado.ops.move.placing import zeroed


def reference(*, mask: Tensor, self: list[Tensor], other: list[Tensor], number: int) -> Tensor:
    constant = torch.tensor(number, dtype=(self or other)[0].dtype)
    first, second = self[0] if self else constant, other[0] if other else constant
    return torch.where(mask != 0, first, second).contiguous()


# ---- from the float graph ------------------------------------------------------------------------------------

_LIBRARY = Functions()
_LIBRARY.define("chosen(Tensor mask, Tensor self, Tensor other) -> Tensor")


def _chosen(mask: Tensor, self: Tensor, other: Tensor) -> Tensor:
    return torch.where(mask != 0, self, other)


def _meta(mask: Tensor, self: Tensor, other: Tensor) -> Tensor:
    return torch.empty_like(mask, dtype=torch.promote_types(self.dtype, other.dtype))


_LIBRARY.impl("chosen", _chosen, "CompositeExplicitAutograd")
_LIBRARY.impl("chosen", _meta, "Meta")
CHOSEN = torch.ops.cortado.chosen.default
CHOSEN_IDS = CHOSEN  # of integers


def match(bound: Bound) -> Quantization | Reject:
    if holds_integers(bound.node):
        refused = refused_shapes(shape(bound["self"]), shape(bound["other"]), out=shape(bound["mask"]))
        return refused or Quantization({"mask": Mask()}, Plain())
    kind = bound.element
    roles = {"mask": Mask(), "self": Activation(kind), "other": Activation(kind)}
    return Quantization(roles, Joined(kind, besides=("mask",)))


def condition_codes(lowering: Lowering) -> Node:
    """Returns the condition as codes that are 0 where it does not hold; a constant one has its own scale."""
    data = lowering.data("mask")
    if data is None:
        return truth_codes(lowering, "mask")
    return lowering.constant("mask", (data != lowering.q("mask").zero_point).to(torch.int8))


def lower(lowering: Lowering) -> Node:
    if holds_integers(lowering.bound.node):
        sides = {name: [words(lowering, name)] for name in ("self", "other")}
        return lowering.call(WHERE, mask=condition_codes(lowering), **sides, number=0)
    out, numbers, tensors = shape(lowering.bound.node), [0], dict[str, list[Node]]()
    for name in ("self", "other"):
        data = lowering.data(name)
        single = data is not None and data.numel() == 1
        if data is not None and single:
            numbers = [int(data)]
        tensors[name] = [] if single else [lowering.view(lowering.node(name), out)]
    mask = lowering.view(condition_codes(lowering), out)
    return lowering.call(WHERE, mask=mask, self=tensors["self"], other=tensors["other"], number=numbers[0])


# ---- the C kernel --------------------------------------------------------------------------------------------


def steps_of(call: Call, name: str) -> int:
    """Returns 1 for an operand with a value for each element of the result, 0 for one with a single value, or for
    none."""
    return int(bool(call[name]) and math.prod(call.shapes(name)[0]) == math.prod(call.shape("mask")))


def _takes(*names: str) -> Callable[[Call], bool]:
    """Returns a predicate for calls in which exactly these sides are tensors."""
    return lambda call: names == tuple(name for name in ("self", "other") if call[name])


def _bytewise(call: Call) -> bool:
    """Whether every side that is a tensor has one byte for each element of the result."""
    return call.element.bytes == 1 and all(steps_of(call, name) for name in ("self", "other") if call[name])


def _any_fields(call: Call) -> dict[str, int]:
    steps = {"a_step": steps_of(call, "self"), "b_step": steps_of(call, "other")}
    return {"bytes": call.element.bytes, **steps, "number": call["number"]}


_BOTH, _FIRST, _SECOND = _takes("self", "other"), _takes("self"), _takes("other")


def _any_row(fits: Callable[[Call], bool], a: Argument, b: Argument) -> KernelRow:
    """Returns a row for values of any size, single ones included."""
    return KernelRow(
        "where",
        None,
        fits=fits,
        arguments=(Operand.LAYER, Row(0), a, b, Bytes(Operand.OUT), Operand.N),
        struct="cortado_where_t",
        fields=_any_fields,
        work=lambda call: loops(
            "calls spans spans*half spans*word", half=call.element.bytes == 2, word=call.element.bytes == 4
        ),
    )


KERNELS = KernelTable(
    (
        KernelRow(
            "where_s8",
            None,
            fits=lambda call: _BOTH(call) and _bytewise(call),
            arguments=(Row(0), Row(1), Row(2), Operand.OUT, Operand.N),
            work=ELEMENTS,
        ),
        KernelRow(
            "where_number_s8",
            None,
            fits=lambda call: not _BOTH(call) and _bytewise(call),
            arguments=(Row(0), Row(1), Operand.OUT, Operand.N, Number(0), Number(1)),
            numbers=lambda call: (call["number"], 0 if call["self"] else 1),
            work=ELEMENTS,
        ),
        _any_row(_BOTH, Bytes(Row(1)), Bytes(Row(2))),
        _any_row(_FIRST, Bytes(Row(1)), Absent()),
        _any_row(_SECOND, Absent(), Bytes(Row(1))),
    )
)


def rows(call: Call) -> Rows:
    given = [name for name in ("self", "other") if call[name]]
    rules = [ONE_ROW if steps_of(call, name) else RowRule(stride=0) for name in given]
    return Rows((ONE_ROW, *rules), pixelwise=True, elementwise=True)


def samples(draw: CaseDraw) -> dict[str, Any]:
    given = draw.pick([("self", "other"), ("self", "other"), ("self",), ("other",)])
    sizes = draw.rows()
    kind, single = draw.element(INT32), draw.pick([None, "self", "other"])
    sides = {name: [draw.codes((1,) * len(sizes) if name == single else sizes, kind)] for name in given}
    return {
        "mask": sampling.codes(draw.seed(), sizes, 0, 1),
        **{name: sides.get(name, []) for name in ("self", "other")},
        "number": draw.whole(*kind.codes),
    }


WHERE = Operator(
    name="cortado::where",
    summary="selects from two tensors, or a number, element by element, by computed truth values",
    reference=reference,
    shape=lambda call: call.shape("mask"),
    kernel=KERNELS,
    element=ElementOf(("self", "other")),
    rows=rows,
    tensors=("mask", "self", "other"),
    relayout=lambda arguments, perm: arguments,
    constraints="equal shapes, or one value for all",
    no_pte="ExecuTorch has no int8 kernel",
    samples=samples,
)

CHOSEN_PATTERN = Pattern(aten=(CHOSEN,), match=match, lower=lower)


# ---- where and masked_fill in the float graph -------------------------------------------------------

aten = torch.ops.aten


def _parts(bound: Bound) -> tuple[Any, Any, Any]:
    """Returns the condition, the value where it holds, and the value elsewhere."""
    if "mask" in bound.values:
        return bound["mask"], bound["value"], bound["self"]
    return bound["condition"], bound["self"], bound["other"]


def _condition(making: Making, bound: Bound) -> Node | None:
    condition = making.truth(_parts(bound)[0])
    return None if condition is None else broadcast_to(bound, condition, shape(bound.node))


def bounds(making: Making, bound: Bound) -> Interval | None:
    _, first, second = _parts(bound)
    return hull([making.interval(first), making.interval(second)])


def choice_words(making: Making, bound: Bound) -> Node | None:
    _, *sides = _parts(bound)
    like, mask = bound.node, _condition(making, bound)
    first, second = (word_of(making, like, side) for side in sides)
    if mask is None or first is None or second is None:
        return None
    return add_call(like, CHOSEN_IDS, mask, *(broadcast_word(like, word, shape(like)) for word in (first, second)))


# ---- real numbers --------------------------------------------------------------------------------------------


def real(making: Making, bound: Bound) -> Node | None:
    condition, first, second = _parts(bound)
    like, numbers = bound.node, [known_number(side) for side in (first, second) if is_number(side)]
    floating = wanted_element(like).floating
    if is_constant(condition) and not all(map(math.isfinite, numbers)) and not floating:
        return None  # a mask that no softmax has absorbed
    if is_constant(condition) and len(numbers) == 1 and not floating:
        return zeroed(like, *_kept(bound), numbers[0])
    mask = _condition(making, bound)
    if mask is None:
        return None
    if len(numbers) == 2 and not floating:
        high, low = numbers
        return add_call(like, aten.add.Tensor, add_call(like, aten.mul.Tensor, mask, high - low), low)
    sides = [_side(making, bound, side) for side in (first, second)]
    return add_call(like, CHOSEN, mask, *sides) if None not in sides else None


def _kept(bound: Bound) -> tuple[Node, torch.Tensor]:
    """Returns the tensor of a selection between a tensor and a number, and where it is taken."""
    condition, first, second = _parts(bound)
    data = constant_data(condition)
    return (second, ~data) if is_number(first) else (first, data)


def _side(making: Making, bound: Bound, side: Any) -> Node | None:
    """Returns a tensor of the result's shape, or a constant with one number (rank 0 if the result has rank 0)."""
    if is_number(side):
        sizes = (1,) * min(1, len(shape(bound.node)))
        return add_constant(bound.node, "number", torch.full(sizes, float(known_number(side))))
    found = making.real(side)
    return None if found is None else broadcast_to(bound, found, shape(bound.node))


# ---- truth values --------------------------------------------------------------------------------------------


def truth(making: Making, bound: Bound) -> Node | None:
    """Selects one side where the condition holds, and the other where it does not."""
    _, *sides = _parts(bound)
    condition = _condition(making, bound)
    if condition is None:
        return None
    both = zip((condition, negated(bound.node, condition)), sides, strict=True)
    parts = [_where(making, bound, holds, side) for holds, side in both]
    return None if None in parts else add_call(bound.node, aten.maximum.default, *parts)


def _where(making: Making, bound: Bound, holds: Node, side: Any) -> Node | None:
    """Returns the side's truth value where the mask holds, 0 elsewhere."""
    if is_number(side):
        return add_call(bound.node, aten.mul.Tensor, holds, float(known_number(side)))
    found = making.truth(side)
    if found is None:
        return None
    return add_call(bound.node, aten.minimum.default, holds, broadcast_to(bound, found, shape(bound.node)))


CHOICE_RULE = DomainRule(
    aten=overloads(aten.where, aten.masked_fill), bounds=bounds, words=choice_words, truth=truth, real=real, closed=True
)
