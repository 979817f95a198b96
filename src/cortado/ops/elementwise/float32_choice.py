"""out = a where mask is not 0, else b; conversions of integers to float32 and back, and of truth values: 1 and 0.

A number too large for 32 bits becomes the nearest integer that fits, NaN becomes 0.
"""

import math
from typing import Any

import torch
from torch.fx import Node

from cortado.base import float32
from cortado.base.element import BOOL, FLOAT32, INT32, Element
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.ir import sampling
from cortado.ir.c_call import Bytes, Number, Operand, Row
from cortado.ir.facts import dtype, holds_integers
from cortado.ir.graph import Bound, shape
from cortado.ir.kernel import ONE_ROW, RowRule, Rows
from cortado.ir.kernel_table import only
from cortado.ir.op import Call, ElementOf, Kernels, Lowering, Operator, Pattern
from cortado.ir.roles import Plain, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ops.elementwise.activation import TRUTH
from cortado.ops.elementwise.compare import COMPARED_IDS, lower_ids, match_ids
from cortado.ops.elementwise.where import CHOSEN
from cortado.ops.floats import as_it_is
from cortado.ops.integer.calculate import refused_shapes, words
from cortado.ops.integer.truth import AS_INTEGER, AS_TRUTH
from cortado.ops.io.quantize import DEQUANTIZE
from cortado.ops.io.quantize import arguments as dequantize_arguments
from cortado.ops.io.widen import as_words
from cortado.ops.loops import ELEMENTS

aten = torch.ops.aten


# ---- a selection ---------------------------------------------------------------------------------------------


def reference(*, mask: Tensor, self: Tensor, other: Tensor) -> Tensor:
    return torch.where(mask != 0, self, other).contiguous()


def match(bound: Bound) -> Quantization | Reject:
    refused = refused_shapes(shape(bound["self"]), shape(bound["other"]), out=shape(bound["mask"]))
    return refused or Quantization({}, Plain())


def lower(lowering: Lowering) -> Node:
    sides = {name: lowering.node(name) for name in ("self", "other")}
    if holds_integers(lowering.bound.node):
        sides = {name: words(lowering, name) for name in sides}
    return lowering.call(FLOAT_WHERE, mask=lowering.node("mask"), **sides)


def _steps(call: Call) -> list[int]:
    return [int(math.prod(call.shape(name)) == math.prod(call.shape("mask"))) for name in ("self", "other")]


KERNELS = only(
    "where_f32",
    FLOAT32,
    arguments=(Row(0), Bytes(Row(1)), Bytes(Row(2)), Bytes(Operand.OUT), Operand.N, Number(0), Number(1)),
    numbers=lambda call: tuple(_steps(call)),
    work=ELEMENTS,
)


def rows(call: Call) -> Rows:
    rules = [ONE_ROW if step else RowRule(stride=0) for step in _steps(call)]
    return Rows((ONE_ROW, *rules), pixelwise=True, elementwise=True)


def samples(draw: CaseDraw) -> dict[str, Any]:
    sizes = draw.rows()
    kind, single = draw.pick([FLOAT32, INT32]), draw.pick([None, "self", "other"])
    case: dict[str, Any] = {"mask": sampling.codes(draw.seed(), sizes, 0, 1).to(torch.float32)}
    for name in ("self", "other"):
        own = (1,) * len(sizes) if name == single else sizes
        whole = draw.codes(own, INT32)
        case[name] = whole if kind is INT32 else draw.numbers(own)
    return case


FLOAT_WHERE = Operator(
    name="cortado::float_where",
    summary="selects from two tensors, element by element, by float32 truth values",
    reference=reference,
    shape=lambda call: call.shape("mask"),
    kernel=KERNELS,
    element=ElementOf(("self",)),
    rows=rows,
    tensors=("mask", "self", "other"),
    relayout=lambda arguments, perm: arguments,
    constraints="equal shapes, or one value for all",
    samples=samples,
)
FLOAT_CHOSEN_PATTERN = Pattern(aten=(CHOSEN,), match=match, lower=lower, floating=True)


# ---- conversions ---------------------------------------------------------------------------------------------


def from_reference(*, input: Tensor) -> Tensor:
    return torch.from_numpy(input.numpy().astype("float32"))


def to_reference(*, input: Tensor) -> Tensor:
    return torch.from_numpy(float32.to_int(input.numpy(), *INT32.codes))


def truth_reference(*, input: Tensor) -> Tensor:
    return (input != 0).contiguous()


def _kernels(name: str, reads: Element, makes: Element) -> Kernels:
    return only(f"{name}_f32", reads, makes, arguments=(Row(0), Operand.OUT, Operand.N), work=ELEMENTS)


def match_conversion(bound: Bound) -> Quantization | Reject:
    kinds = dtype(bound["self"]), dtype(bound.node)
    if kinds[1] == torch.float32 and not kinds[0].is_floating_point:
        return Quantization({}, Plain())
    if kinds[0] == torch.float32 and kinds[1] in (torch.int32, torch.int64):
        return Quantization({}, Plain())
    return Reject(f"converts {kinds[0]} to {kinds[1]}")


def lower_conversion(lowering: Lowering) -> Node:
    if dtype(lowering.bound.node) != torch.float32:
        return lowering.call(FLOAT_TO_INT, input=lowering.node("self"))
    return lowering.call(FLOAT_FROM_INT, input=as_words(lowering, lowering.node("self")))


def lower_compared_ids(lowering: Lowering) -> Node:
    codes = lower_ids(lowering)
    return lowering.call(DEQUANTIZE, input=codes, **dequantize_arguments(TRUTH))


_ONE_BY_ONE = Rows((ONE_ROW,), pixelwise=True, elementwise=True)

FLOAT_FROM_INT = Operator(
    name="cortado::float_from_int",
    summary="32-bit integers converted to float32",
    reference=from_reference,
    shape=lambda call: call.shape("input"),
    kernel=_kernels("from_s32", INT32, FLOAT32),
    element=FLOAT32,
    rows=lambda call: _ONE_BY_ONE,
)
FLOAT_TO_INT = Operator(
    name="cortado::float_to_int",
    summary="float32 truncated to 32-bit integers",
    reference=to_reference,
    shape=lambda call: call.shape("input"),
    kernel=_kernels("to_s32", FLOAT32, INT32),
    element=INT32,
    rows=lambda call: _ONE_BY_ONE,
    constraints="values beyond 32 bits saturate, NaN becomes 0",
)
FLOAT_TO_TRUTH = Operator(
    name="cortado::float_to_truth",
    summary="float32 truth values as an output of the model",
    reference=truth_reference,
    shape=lambda call: call.shape("input"),
    kernel=_kernels("to_bool", FLOAT32, BOOL),
    element=BOOL,
)


def lower_truth(lowering: Lowering) -> Node:
    return lowering.call(FLOAT_TO_TRUTH, input=lowering.node("self"))


def lower_integer(lowering: Lowering) -> Node:
    return lowering.call(FLOAT_TO_INT, input=lowering.node("self"))


def match_ids_in_float(bound: Bound) -> Quantization | Reject:
    found = match_ids(bound)
    return found if isinstance(found, Reject) else Quantization({}, Plain())


FLOAT_CONVERSION_PATTERN = Pattern(aten=(aten.to.dtype,), match=match_conversion, lower=lower_conversion, floating=True)
FLOAT_COMPARED_IDS_PATTERN = Pattern(
    aten=(COMPARED_IDS,), match=match_ids_in_float, lower=lower_compared_ids, floating=True
)
FLOAT_AS_TRUTH_PATTERN = Pattern(aten=(AS_TRUTH,), match=as_it_is, lower=lower_truth, floating=True)
FLOAT_AS_INTEGER_PATTERN = Pattern(aten=(AS_INTEGER,), match=as_it_is, lower=lower_integer, floating=True)
