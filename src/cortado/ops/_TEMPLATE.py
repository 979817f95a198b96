"""out = clamp(requant(requant((a - a_zp) << 20) + requant((b - b_zp) << 20)) + out_zp): a + weight * (b - a).

A complete operator to copy: `cp _TEMPLATE.py NAME.py`, then change it from top to bottom. Files that start with an
underscore are not read; every other file of this folder is, by listing it, so nothing else has to be told about a new
operator. docs/adding-an-operator.md walks through the same steps. This docstring says WHAT is computed, exactly.
"""

from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT8
from cortado.base.errors import Reject
from cortado.base.numerics import Fixed, Tensor, clamp_int8, requant
from cortado.ir import sampling
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.kernel import ONE_ROW, Rows
from cortado.ir.kernel_table import PAIR, KernelRow, KernelTable
from cortado.ir.op import Call, Lowering, Operator, Pattern, Rewrite
from cortado.ir.roles import Activation, High, InZeroPoint, Low, Multiplier, OutZeroPoint, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Work, loops
from cortado.ops.elementwise.pointwise import uniform_value

# ruff: noqa: N999  (the file's name)

aten = torch.ops.aten

# ---- what it computes ----------------------------------------------------------------------------------------


def reference(
    *,
    self: Tensor,
    self_zero_point: InZeroPoint,
    self_multiplier: int,
    self_shift: int,
    end: Tensor,
    end_zero_point: InZeroPoint,
    end_multiplier: int,
    end_shift: int,
    output_zero_point: OutZeroPoint,
    output_multiplier: Multiplier,
    output_shift: int,
    activation_min: Low,
    activation_max: High,
) -> Tensor:
    """The exact semantics: integers in, integers out, every rounding defined. The C kernel has to give the same bits.

    Arguments have the names of the schema, except scratch. int64 holds every intermediate value; a C kernel has 32
    bits, so `lower` must not choose parameters that need more. Returns a contiguous tensor.
    """
    left = requant((self.to(torch.int64) - self_zero_point) << 20, self_multiplier, self_shift)
    right = requant((end.to(torch.int64) - end_zero_point) << 20, end_multiplier, end_shift)
    total = requant(left + right, output_multiplier, output_shift) + output_zero_point
    return clamp_int8(total, activation_min, activation_max).contiguous()


def output_shape(call: Call) -> tuple[int, ...]:
    """Returns the shape of the result. In `call`, activation tensors are given as shapes and constants as tensors
    (call.shape works on both)."""
    return call.shape("self")


# ---- from aten -----------------------------------------------------------------------------------------------


def match(bound: Bound) -> Quantization | Reject:
    """Decides whether this operator takes a node of the float graph, and how its tensors are quantized.

    Called before quantization and again when lowering, so it can look at shapes, arguments and constants, but not at
    scales. The reason inside Reject is the sentence the user reads: what was found and what is supported.

    Activation(INT8) has a calibrated scale; an operator with kernels for several elements says
    Activation(bound.element), and is only asked for elements that it has a kernel for. Weight(INT8) has a scale per
    channel (Weight(INT4): it has kernels for 4 bits too), Bias() is int32 with the scale input times weight, Mask()
    holds truth values. The output can also be SharedWith("self") (data movement: the output has that operand's scale),
    Joined(INT8) (concatenation: the operands are requantized to the output's scale), fixed QParams (softmax) or
    Usually(QParams) (sigmoid).
    """
    if shape(bound["self"]) != shape(bound["end"]):
        return Reject(f"lerp between shapes {shape(bound['self'])} and {shape(bound['end'])}; expand one of them first")
    if not 0.0 < float(bound["weight"]) < 1.0:
        return Reject(f"lerp with weight {bound['weight']}; supported are weights between 0 and 1")
    return Quantization({"self": Activation(INT8), "end": Activation(INT8)}, Activation(INT8))


def lower(lowering: Lowering) -> Node:
    """Lowers the node to calls of operators.

    lowering.bound holds the aten arguments, q(name) an operand's quantization parameters, out the result's, data(name)
    a constant's integers, bounds() the limits of a clamp fused into this call, in codes. call, constant, view and
    transpose add to the graph and return nodes. Kernels for images work in NHWC: wrap them in transpose(..., (0, 2, 3,
    1)) and (0, 3, 1, 2); transposes of neighbouring calls cancel. The last node must have the shape of the aten node.
    """
    weight = float(lowering.bound["weight"])
    scales = {"self": (1.0 - weight) * lowering.q("self").scale, "end": weight * lowering.q("end").scale}
    largest = 2 * max(scales.values())
    factors = {name: Fixed.of(scale / largest) for name, scale in scales.items()}  # a real factor as multiplier, shift
    out = Fixed.of(largest / (2**20 * lowering.out.scale))
    low, high = lowering.bounds()
    return lowering.call(
        LERP,
        self=lowering.node("self"),
        self_zero_point=lowering.q("self").zero_point,
        self_multiplier=factors["self"].multiplier,
        self_shift=factors["self"].shift,
        end=lowering.node("end"),
        end_zero_point=lowering.q("end").zero_point,
        end_multiplier=factors["end"].multiplier,
        end_shift=factors["end"].shift,
        output_zero_point=lowering.out.zero_point,
        **out.arguments("output"),
        activation_min=low,
        activation_max=high,
    )


def to_scalar_weight(bound: Bound) -> Node | None:
    """Rewrites another spelling in the float graph before quantization; None leaves the node alone."""
    weight = uniform_value(bound["weight"])
    return None if weight is None else add_call(bound.node, aten.lerp.Scalar, bound["self"], bound["end"], weight)


# ---- the C kernel --------------------------------------------------------------------------------------------


def rows(call: Call) -> Rows | None:
    """Describes how the kernel runs row by row, inside a cascade of layers.

    One RowRule per tensor operand: which input rows an output row needs (ONE_ROW: the same one; stride 0: all of it for
    every row). pixelwise: the kernel runs over any span of pixels; elementwise: over any span of elements, and the
    output can overlay an input. None: it needs whole tensors.
    """
    return Rows((ONE_ROW, ONE_ROW), pixelwise=True, elementwise=True)


def fields(call: Call) -> dict[str, int]:
    """Returns those members of the descriptor that are no parameters of the call under C's names (a_zero is
    self_zero_point, act_min activation_min; ir/c_structs.py): numbers, tuples for inline arrays, Array for constants,
    None for NULL."""
    return {f"b_{part}": call[f"end_{name}"] for part, name in _PARTS.items()}


_PARTS = {"zero": "zero_point", "multiplier": "multiplier", "shift": "shift"}


def work(call: Call) -> Work:
    """Counts the iterations of its loops for the cost table: per call, per output, with and without a clamped
    output."""
    return loops("calls outputs outputs*unhalved cut uncut", call["activation_min"], unhalved=1)


# The C kernels, one row each; the first row that takes a call is used. A row names the element that a function reads
# (and the one it writes, if different), the cores that have it (`cores`) and the calls that fit (`fits`), where these
# are restricted; rows without restrictions come after restricted ones. Row(i) among its arguments is operand i's row; a
# kernel with RowRules takes Operand.ROWS, its taps one after the other. cortado.ir.c_call lists the other kinds of
# argument. A new kernel is one file src/cortado/kernels/src/FAMILY/NAME_s8.c and its declaration in include/cortado.h;
# this operator reuses the addition's.
KERNELS = KernelTable((KernelRow("add_s8", INT8, arguments=PAIR, struct="cortado_add_t", fields=fields, work=work),))

# ---- samples -------------------------------------------------------------------------------------------------


def samples(draw: CaseDraw) -> dict[str, Any]:
    """Draws legal arguments for the generic tests: all the shapes and parameters that `lower` could choose."""
    seed = draw.seed()
    sizes = draw.rows()
    weight = draw.real(0.01, 0.99)
    factors = [Fixed.of(part / (2 * max(weight, 1.0 - weight))) for part in (1.0 - weight, weight)]
    out = Fixed.of(2.0 ** draw.real(-22, -16))
    return {
        "self": sampling.codes(seed, sizes),
        "self_multiplier": factors[0].multiplier,
        "self_shift": factors[0].shift,
        "end": sampling.codes(seed + 1, sizes),
        "end_multiplier": factors[1].multiplier,
        "end_shift": factors[1].shift,
        **out.arguments("output"),
    }


# ---- the records ---------------------------------------------------------------------------------------------

LERP = Operator(
    # cortex_m::... for an operator of ExecuTorch's contract (the parameters of `reference` are then its schema's),
    # aten::... for an ExecuTorch kernel that only moves int8 data, cortado::... for anything else.
    name="cortado::lerp",
    summary="a point between two tensors",  # one line of `cortado ops`
    # Its parameters and their types define the operator's: the schema in torch and the arguments of every call.
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    element=INT8,  # None where no data moves (`view=True`)
    rows=rows,
    tensors=("self", "end"),  # the activation operands, in the order of the kernel's rows
    # The arguments of the same call with the dimensions of its operands permuted; for an elementwise operator,
    # unchanged.
    relayout=lambda arguments, perm: arguments,
    constraints="equal shapes, 0 < weight < 1",
    no_pte="ExecuTorch has no such operator",
    samples=samples,
    # Also: dtype of the result (int8); pte, the same call in operators that a .pte can hold; pte_limit, what
    # ExecuTorch's kernels can't do; permutes, identity and channel_constants, which let the passes drop and move calls.
)

# fuses_clamp: a relu or clamp that follows becomes this call's bounds (lowering.bounds()) instead of a call of its own.
# Also: monotone, so that a clamp that follows can be moved in front of it; images, whose results lie in memory as NHWC;
# in_float, how the .pte holds it in float where ExecuTorch can't take the aten call.
LERP_PATTERN = Pattern(aten=(aten.lerp.Scalar,), match=match, lower=lower, fuses_clamp=True)
LERP_REWRITE = Rewrite(aten=(aten.lerp.Tensor,), rewrite=to_scalar_weight)
