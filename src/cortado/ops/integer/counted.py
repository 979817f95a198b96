"""out = f(x), a 32-bit integer for each code of x: `(x * 4).floor().long()`, and any other function that returns
integers.

The function is known for every code, so each digit of its integers is a table: digits have 8 bits for int8 codes, 16
bits for int16. Integers of one digit are that table, widened; of more digits, the sum of the tables. It has no kernel
of its own.
"""

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.element import INT16, INT32, Element
from cortado.base.errors import CortadoError, Reject
from cortado.base.numerics import QParams, Tensor
from cortado.ir.graph import Bound, add_call, describe, shape
from cortado.ir.op import Lowering, Pattern
from cortado.ir.roles import Activation, Plain, Quantization
from cortado.ir.schemas import Functions
from cortado.ops.elementwise import activation, function_tables
from cortado.ops.elementwise.pointwise import computed, text_of
from cortado.ops.integer.calculate import CALCULATE_INT, How
from cortado.ops.io.widen import WIDEN

_LIBRARY = Functions()
_LIBRARY.define("counted(Tensor input, str function) -> Tensor")
_LIBRARY.impl("counted", lambda input, function: computed(input, function).to(torch.int64), "CompositeExplicitAutograd")
_LIBRARY.impl("counted", lambda input, function: torch.empty_like(input, dtype=torch.int64), "Meta")
COUNTED: OpOverload = torch.ops.cortado.counted.default


def counted(node: Node, root: Node) -> Node | None:
    """Adds the integers that a call computes, if it is an elementwise function of one tensor of real numbers."""
    text = text_of(node, root)
    return None if text is None else add_call(node, COUNTED, root, text)


def match(bound: Bound) -> Quantization | Reject:
    if bound.element.floating:
        return Reject("converts float32 numbers to integers, for which there is no kernel; give it int8 or int16 codes")
    return Quantization({"input": Activation(bound.element)}, Plain())


def lower(lowering: Lowering) -> Node:
    given: QParams = lowering.q("input")
    codes = function_tables.all_codes() if given.element.symmetric else activation.all_codes()
    found = computed(given.dequantize(codes), lowering.bound["function"]).to(torch.int64).clamp(*INT32.codes)
    total: Node | None = None
    for place, digit in enumerate(_digits(found, given.element)):
        part = _digit(lowering, digit, given.element)
        if place:
            part = _calculated(lowering, part, _number(lowering, 1 << (place * given.element.bits)), How.PRODUCT)
        total = part if total is None else _calculated(lowering, total, part, How.SUM)
    assert total is not None
    return total


def _digits(values: Tensor, element: Element) -> list[Tensor]:
    """Returns integers as digits to be multiplied by powers of two, the lowest first; each digit is a code of the
    element."""
    found: list[Tensor] = []
    while not found or bool(values.any()):
        digit = (values - element.low).remainder(element.steps + 1) + element.low
        found.append(digit)
        values = (values - digit) >> element.bits
    return found


def _digit(lowering: Lowering, digit: Tensor, element: Element) -> Node:
    source = lowering.node("input")
    if not element.symmetric:
        codes = activation.table(lowering, source, digit.to(element.torch_dtype))
        return lowering.call(WIDEN, input=codes, bytes=1, sign=1)
    if function_tables.runs_of(digit.to(torch.int32)) is None:
        raise CortadoError(
            f"{describe(lowering.bound.node)} gives more than {function_tables.MOST_RUNS} different integers for int16 "
            "codes, expected fewer; keep it in int8 (--int16 without its module), or divide before rounding"
        )
    codes = function_tables.looked_up(lowering, source, digit, QParams(1.0, 0, INT16))
    return lowering.call(WIDEN, input=codes, bytes=2, sign=1)


def _number(lowering: Lowering, number: int) -> Node:
    rank = max(len(shape(lowering.bound.node)), 1)
    return lowering.constant("number", torch.full((1,) * rank, number, dtype=torch.int32))


def _calculated(lowering: Lowering, left: Node, right: Node, how: How) -> Node:
    return lowering.call(CALCULATE_INT, self=left, other=right, how=int(how))


COUNTED_PATTERN = Pattern(aten=(COUNTED,), match=match, lower=lower)
