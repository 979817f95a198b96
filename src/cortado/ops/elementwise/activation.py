"""out = table[x + 128]: every elementwise function of one int8 tensor is a table of 256 entries.

The entry for code x is quantize(f(dequantize(x))), computed here in float32 exactly as the calibrated model computes
it. If f has no finite value, the entry saturates: +inf becomes the largest code, -inf the smallest, NaN (the square
root or logarithm of a negative number) the output's zero point.
"""

import math
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed
from torch.fx import Node

from cortado.base.element import CODES, INT8, INT16
from cortado.base.errors import Reject
from cortado.base.numerics import QParams, Tensor
from cortado.base.target import Core
from cortado.ir import sampling
from cortado.ir.c_call import Member, Operand, Row
from cortado.ir.facts import TABLE, dtype, holds_integers, qparams
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.kernel import ONE_ROW, Array, Rows
from cortado.ir.kernel_table import EVERY_CORE, KernelRow, KernelTable
from cortado.ir.op import Call, Lowering, Operator, Pattern, Priority, Rewrite
from cortado.ir.roles import Activation, Quantization, Usually
from cortado.ir.sampling import CaseDraw
from cortado.ops.elementwise import binary, function_tables
from cortado.ops.elementwise.pointwise import (
    COMBINATIONS,
    FUNCTIONS,
    POINTWISE,
    attribute,
    function_of,
    gives_truth,
    last_call,
    operand_name,
    uniform_value,
)
from cortado.ops.elementwise.requantize import requantized
from cortado.ops.float_graph import add_constant
from cortado.ops.io.quantize import qparams_of
from cortado.ops.io.uint8_input import FLIP, RAW, byte_qparams, byte_values, flipped
from cortado.ops.loops import FOURS, VECTORS

aten = torch.ops.aten
_quantize = torch.ops.quantized_decomposed.quantize_per_tensor.default

TRUTH = QParams(1.0, 0, INT8)  # truth values: 0 and 1
UNIT_INTERVAL = QParams(1 / 256, INT8.low, INT8)  # [0, 1): sigmoid, hardsigmoid, softmax
PLUS_MINUS_ONE = QParams(1 / 128, 0, INT8)  # [-1, 1): tanh
WIDE_UNIT = QParams(1 / 32768, 0, INT16)  # the same for int16, which is symmetric
USUAL_OUTPUT = {
    aten.sigmoid.default: UNIT_INTERVAL,
    aten.hardsigmoid.default: UNIT_INTERVAL,
    aten.tanh.default: PLUS_MINUS_ONE,
}


def reference(*, input: Tensor, lut: Tensor) -> Tensor:
    return lut[input.to(torch.int64) + 128].contiguous()


# ---- from aten -----------------------------------------------------------------------------------------------


def match(bound: Bound) -> Quantization | Reject:
    if dtype(bound.node) not in (torch.float32, torch.int8, torch.int16):
        return Reject(f"gives {dtype(bound.node)}, but only float32 results can be quantized")
    source = bound.node.all_input_nodes[0]
    if holds_integers(source):
        return match_bytes(bound, source)
    kind, name = bound.element, operand_name(bound.node)
    if gives_truth(bound.node):
        return Quantization({name: Activation(kind)}, TRUTH)
    usual = USUAL_OUTPUT.get(last_call(bound.node))
    if usual is None:
        return Quantization({name: Activation(kind)}, Activation(kind))
    return Quantization({name: Activation(kind)}, Usually(usual if kind.affine else WIDE_UNIT))


def refuse(bound: Bound) -> Reject:
    """Refuses the comparisons and selections that remain once every function of one tensor has become a table."""
    if dtype(bound.node) == torch.bool:
        return Reject("a comparison is only supported inside a function of one tensor whose result is float32")
    if not dtype(bound.node).is_floating_point:
        return Reject(
            f"computes {dtype(bound.node)} values; integers support arithmetic (+ - * // % minimum maximum where), "
            "lookup (embedding), comparison, movement and conversion to float32, and can be an output or state"
        )
    others = [dtype(one) for one in (bound.node, *bound.node.all_input_nodes) if dtype(one).is_floating_point]
    narrow = next((kind for kind in others if kind != torch.float32), None)
    if narrow is not None:
        name = str(narrow).removeprefix("torch.")
        return Reject(f"is part of a computation in {name}, expected float32; remove the conversions to {name}")
    return Reject(
        "mixes several tensors element by element; supported are add, sub, mul, div, minimum and maximum, and any "
        "function of a single tensor"
    )


def table(lowering: Lowering, source: Node, codes: Tensor) -> Node:
    """Adds a call that looks every code of `source` up in these 256 entries; a table of a table becomes one table."""
    before = TABLE.of(source)
    if before is not None:
        codes, source = codes[before.to(torch.int64) + 128], source.kwargs["input"]  # type: ignore[assignment]
    node = lowering.call(ACTIVATION, input=source, lut=lowering.constant("table", codes))
    TABLE.note(node, codes)
    return node


def entries(values: Tensor, out: QParams) -> Tensor:
    """Quantizes 256 real numbers to codes, saturating."""
    finite = torch.nan_to_num(values.to(torch.float32), nan=0.0, posinf=math.inf, neginf=-math.inf)
    kind = out.element
    codes: Tensor = _quantize(finite, out.scale, out.zero_point, *kind.codes, kind.torch_dtype)
    return codes


def all_codes() -> Tensor:
    return torch.arange(INT8.low, INT8.high + 1, dtype=torch.int32)


def lower(lowering: Lowering) -> Node:
    name = operand_name(lowering.bound.node)
    if holds_integers(lowering.node(name)):
        return lower_bytes(lowering, lowering.node(name))
    given, function = lowering.q(name), function_of(lowering.bound.node)
    if given.element.symmetric:
        values = function(given.dequantize(function_tables.all_codes()))
        return function_tables.looked_up(lowering, lowering.node(name), values, lowering.out)
    values = function(given.dequantize(all_codes()))
    return table(lowering, lowering.node(name), entries(values, lowering.out))


def match_bytes(bound: Bound, source: Node) -> Quantization | Reject:
    """Takes an 8-bit input: its values are codes already, and the result gets a scale that keeps all 256 of them
    apart."""
    if dtype(source).itemsize != 1:
        return Reject(f"takes {dtype(source)} values as they are; convert them to float32 first")
    return Quantization({}, byte_qparams(function_of(bound.node)(byte_values(dtype(source))), dtype(source)))


def lower_bytes(lowering: Lowering, source: Node) -> Node:
    values = function_of(lowering.bound.node)(byte_values(dtype(source)))
    codes, raw = entries(values, lowering.out), lowering.call(RAW, input=source)
    if torch.equal(codes, all_codes().to(torch.int8)):
        return raw
    if torch.equal(codes, flipped(all_codes().to(torch.int8))):
        return lowering.call(FLIP, input=raw)
    return table(lowering, raw, codes)


def match_rescale(bound: Bound) -> Quantization | Reject:
    known = qparams(bound["input"])
    if known is None:
        return Reject("a float tensor")
    if not {known.element, qparams_of(bound).element} <= set(CODES):
        return Reject(f"{known.element.name} codes can't be read as {qparams_of(bound).element.name}")
    return Quantization({"input": Activation(None)}, Activation(qparams_of(bound).element))


def lower_rescale(lowering: Lowering) -> Node:
    """Requantizes a tensor to other parameters (for a concatenation, minimum or maximum), or to another element."""
    given, out = lowering.q("input"), lowering.out
    if given.element.symmetric or out.element.symmetric:
        return requantized(lowering, lowering.node("input"), given, out)
    return table(lowering, lowering.node("input"), entries(lowering.q("input").dequantize(all_codes()), lowering.out))


def clamped(lowering: Lowering, node: Node) -> Node:
    """Applies a clamp that follows a kernel without bounds of its own.

    Usually the range of the codes already is the clamp: the scale was calibrated on clamped values. A bound next to the
    last code is as good as the last code: it is one rounding away.
    """
    low, high = lowering.bounds()
    if low <= lowering.out.element.low + 1 and high >= lowering.out.element.high - 1:
        return node
    if lowering.out.element.symmetric:
        return requantized(lowering, node, lowering.out, lowering.out, (low, high))
    return table(lowering, node, all_codes().clamp(low, high).to(torch.int8))


# ---- other spellings -----------------------------------------------------------------------------------------


def to_sigmoid(bound: Bound) -> Node:
    return add_call(bound.node, aten.sigmoid.default, bound["self"])


_BITWISE = {
    aten.__and__.Tensor: aten.bitwise_and.Tensor,
    aten.__or__.Tensor: aten.bitwise_or.Tensor,
    aten.__xor__.Tensor: aten.bitwise_xor.Tensor,
}


def to_bitwise(bound: Bound) -> Node:
    """Rewrites Python's operators as bitwise calls."""
    return add_call(bound.node, _BITWISE[bound.node.target], bound["self"], bound["other"])  # type: ignore[index]


def to_leaky_relu(bound: Bound) -> Node | None:
    """Rewrites rrelu, which in evaluation mode has one slope, the middle of its range. (FX keeps a random call that
    nothing reads.)"""
    if bound["training"]:
        return None
    return add_call(bound.node, aten.leaky_relu.default, bound["self"], (bound["lower"] + bound["upper"]) / 2)


def to_clamp(bound: Bound) -> Node:
    return add_call(bound.node, aten.clamp.default, bound["self"], bound["min"], bound["max"])


def to_fewer_slopes(bound: Bound) -> Node | None:
    """Rewrites PReLU with a slope per channel in terms of supported calls; a single slope makes it a table, and it
    stays.

    max(x, slope * x) if no slope is above 1, min(x, slope * x) if none is below, x + (slope - 1) * min(x, 0) if there
    are both.
    """
    source, weight = bound["self"], bound["weight"]
    slopes = attribute(weight)
    if slopes is None or uniform_value(weight) is not None:
        return None
    node, sizes = bound.node, [-1 if dim == 1 else 1 for dim in range(max(len(shape(source)), 2))]

    def scaled(operand: Node, factors: Tensor) -> Node:
        constant = add_constant(node, "slopes", factors.reshape(sizes))
        return add_call(node, aten.mul.Tensor, *binary.broadcast(bound, operand, constant, by_channel=True))

    if bool((slopes <= 1).all()):
        return add_call(node, aten.maximum.default, source, scaled(source, slopes))
    if bool((slopes >= 1).all()):
        return add_call(node, aten.minimum.default, source, scaled(source, slopes))
    negative = add_call(node, aten.clamp_max.default, source, 0)
    return add_call(node, aten.add.Tensor, source, scaled(negative, slopes - 1))


# ---- the C kernel --------------------------------------------------------------------------------------------


# The functions that look codes up in a table, and the cores that have them.
LOOKUPS = (("table_s8__mve", (Core.MVE,)), ("table_s8", EVERY_CORE))

KERNELS = KernelTable(
    tuple(
        KernelRow(
            symbol,
            INT8,
            cores=cores,
            arguments=(Member("table"), Row(0), Operand.OUT, Operand.N),
            struct="cortado_table_t",
            fields=lambda call: {"table": Array(call.array("lut"))},
            work=VECTORS if Core.MVE in cores and len(cores) == 1 else FOURS,
        )
        for symbol, cores in LOOKUPS
    )
)


def is_identity(call: Call) -> bool:
    """Whether a table maps every code to itself: a relu after a relu, a product with a number."""
    return torch.equal(call["lut"], all_codes().to(torch.int8))


def samples(draw: CaseDraw) -> dict[str, Any]:
    seed = draw.seed()
    sizes = draw.sizes(9, 1, 4)
    return {"input": sampling.codes(seed, sizes), "lut": sampling.codes(seed + 1, (256,))}


ACTIVATION = Operator(
    name="cortex_m::quantized_activation",
    summary="any function of one tensor, element by element, as a table of 256 entries",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=KERNELS,
    element=INT8,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True, elementwise=True),
    relayout=lambda arguments, perm: arguments,
    identity=is_identity,
    constraints="infinite values saturate, undefined ones give the output's zero point",
    by_channel=True,
    samples=samples,
)

ACTIVATION_PATTERN = Pattern(aten=(*sorted(FUNCTIONS, key=str), POINTWISE), match=match, lower=lower)
RESCALE_PATTERN = Pattern(aten=(_quantize,), match=match_rescale, lower=lower_rescale, priority=Priority.SPECIAL)
REFUSED_PATTERN = Pattern(
    aten=tuple(sorted(COMBINATIONS, key=str)), match=refuse, lower=lower, priority=Priority.NOBODY_ELSE
)

BITWISE_REWRITE = Rewrite(aten=tuple(_BITWISE), rewrite=to_bitwise)
RRELU_REWRITE = Rewrite(aten=(aten.rrelu.default,), rewrite=to_leaky_relu)
SIGMOID_REWRITE = Rewrite(aten=(aten.special_expit.default,), rewrite=to_sigmoid)
CLAMP_REWRITE = Rewrite(aten=(aten.clip.default,), rewrite=to_clamp)
PRELU_REWRITE = Rewrite(aten=(aten.prelu.default, aten._prelu_kernel.default), rewrite=to_fewer_slopes)
