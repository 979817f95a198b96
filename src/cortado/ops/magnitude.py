"""out = clamp(zero_point + sqrt(a^2 + b^2 + start) * factor), element by element: hypot, and sqrt(a * a + b * b).

a and b are codes without their zero points, times multipliers of up to 12 bits that bring them to one step; `start` is
in that step too. The sum is exact and its root is rounded once, so that small magnitudes beside large ones lose
nothing: squares in int8 would.
"""

from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.errors import Reject
from cortado.base.numerics import Tensor, clamp_int8
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Operand, Row
from cortado.ir.facts import dtype
from cortado.ir.functions import Functions
from cortado.ir.graph import Bound, add_call, bind, is_call, shape, sole_user
from cortado.ir.kernel import Kernel
from cortado.ir.op import Activation, Call, Lowering, Operator, Pattern, Place, Quantization, Rewrite
from cortado.ops import _binary, _measures
from cortado.ops._work import ELEMENTS
from cortado.ops.pointwise import operands

aten = torch.ops.aten
MULTIPLIER_BITS = 12
LARGEST_START = 2**60  # squares have 40 bits; what is beyond leaves nothing of them in the output

# ---- in the float graph --------------------------------------------------------------------------------------

_LIBRARY = Functions()
_LIBRARY.define("magnitude_of(Tensor input, Tensor other, float eps) -> Tensor")
_LIBRARY.impl(
    "magnitude_of",
    lambda input, other, eps: torch.sqrt(input * input + other * other + eps) if eps else torch.hypot(input, other),
    "CompositeExplicitAutograd",
)
_LIBRARY.impl("magnitude_of", lambda input, other, eps: torch.empty_like(input), "Meta")

MAGNITUDE_IN_FLOAT: OpOverload = torch.ops.cortado.magnitude_of.default


def magnitude(like: Node, first: Node, second: Node, eps: float = 0.0) -> Node:
    """Of tensors that can be broadcast."""
    sizes = list(torch.broadcast_shapes(shape(first), shape(second)))
    both = [
        one if list(shape(one)) == sizes else add_call(like, aten.expand.default, one, sizes) for one in (first, second)
    ]
    return add_call(like, MAGNITUDE_IN_FLOAT, *both, eps)


def hypot(bound: Bound) -> Node | None:
    """Of one tensor it is a table."""
    if len(operands(bound.node)) < 2:
        return None
    return magnitude(bound.node, bound["self"], bound["other"])


def root_of_squares(bound: Bound) -> Node | None:
    """sqrt(a * a + b * b + eps), however squares are written."""
    source, eps = bound["self"], 0.0
    if is_call(source, aten.add.Tensor) and isinstance(bind(source)["other"], int | float):
        eps, source = float(bind(source)["other"]), bind(source)["self"]
    if not is_call(source, aten.add.Tensor) or sole_user(source) is None or bind(source)["alpha"] != 1 or eps < 0:
        return None
    first, second = (_squared(bind(source)[name]) for name in ("self", "other"))
    if first is None or second is None or first is second:
        return None
    return magnitude(bound.node, first, second, eps)


def _squared(node: Any) -> Node | None:
    """What a node is the square of."""
    if not isinstance(node, Node) or node.op != "call_function" or dtype(node) != torch.float32:
        return None
    bound = bind(node)
    product = is_call(node, aten.mul.Tensor) and bound["self"] is bound["other"]
    power = is_call(node, aten.pow.Tensor_Scalar) and bound["exponent"] == 2
    base = bound["self"] if product or power or is_call(node, aten.square.default) else None
    return base if isinstance(base, Node) else None


def of_complex(bound: Bound) -> Node | None:
    """abs of complex numbers whose parts are known."""
    source = bound["self"]
    if is_call(source, aten.complex.default):
        return magnitude(bound.node, bind(source)["real"], bind(source)["imag"])
    if is_call(source, aten.view_as_complex.default):
        pairs = bind(source)["self"]
        real, imaginary = (add_call(bound.node, aten.select.int, pairs, -1, part) for part in (0, 1))
        return magnitude(bound.node, real, imaginary)
    return None


# ---- what it computes ----------------------------------------------------------------------------------------


def reference(
    *,
    input: Tensor,
    input_zero_point: int,
    input_multiplier: int,
    other: Tensor,
    other_zero_point: int,
    other_multiplier: int,
    start: int,
    start_shift: int,
    output_zero_point: int,
    output_multiplier: int,
    output_shift: int,
) -> Tensor:
    a = (input.to(torch.int64) - input_zero_point) * input_multiplier
    b = (other.to(torch.int64) - other_zero_point) * other_multiplier
    wide, left = _measures.normalized(a.square() + b.square() + (start << start_shift))
    size = _measures.rescaled(_measures.root(wide), output_multiplier, 31 + (left >> 1) - output_shift)
    return clamp_int8(size + output_zero_point).contiguous()


def match(bound: Bound) -> Quantization | Reject:
    return Quantization({"input": Activation(), "other": Activation()})


def lower(lowering: Lowering) -> Node:
    scales = {name: lowering.q(name).scale for name in ("input", "other")}
    step = max(scales.values()) / (2**MULTIPLIER_BITS - 1)
    start = min(round(lowering.bound["eps"] / step / step), LARGEST_START)
    shift = max(start.bit_length() - 31, 0)
    return lowering.call(
        MAGNITUDE,
        input=lowering.node("input"),
        input_zero_point=lowering.q("input").zero_point,
        input_multiplier=round(scales["input"] / step),
        other=lowering.node("other"),
        other_zero_point=lowering.q("other").zero_point,
        other_multiplier=round(scales["other"] / step),
        start=start >> shift,
        start_shift=shift,
        output_zero_point=lowering.out.zero_point,
        **_measures.factor(lowering, step / lowering.out.scale),
    )


# ---- the C kernel --------------------------------------------------------------------------------------------


def kernel(call: Call, core: Core) -> Kernel:
    return Kernel(
        call=CCall("cortado_magnitude_s8", (Operand.LAYER, Row(0), Row(1), Operand.OUT, Operand.N)),
        sources=("magnitude_s8.c",),
        struct="cortado_magnitude_t",
        fields={
            "a_zero": call["input_zero_point"],
            "a_multiplier": call["input_multiplier"],
            "b_zero": call["other_zero_point"],
            "b_multiplier": call["other_multiplier"],
            "start": call["start"],
            "start_shift": call["start_shift"],
            "out_zero": call["output_zero_point"],
            "out_multiplier": call["output_multiplier"],
            "out_shift": call["output_shift"],
        },
        work=ELEMENTS,
    )


def samples() -> Any:
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        most = 2**MULTIPLIER_BITS - 1
        operands = _binary.draw_operands(draw, by_channel=False)
        multipliers = [most, draw(st.integers(0, most))]
        if draw(st.booleans()):
            multipliers.reverse()
        return {
            "input": operands["self"],
            "input_zero_point": draw(sampling.ZERO_POINTS),
            "input_multiplier": multipliers[0],
            "other": operands["other"],
            "other_zero_point": draw(sampling.ZERO_POINTS),
            "other_multiplier": multipliers[1],
            "start": draw(st.sampled_from([0, 1, 70_000, 2**31 - 1])),
            "start_shift": draw(st.sampled_from([0, 0, 1, 29])),
            "output_zero_point": draw(sampling.ZERO_POINTS),
            "output_multiplier": draw(st.integers(2**30, 2**31 - 1)),
            "output_shift": draw(st.integers(-30, -6)),
        }

    return draw_case()


MAGNITUDE = Operator(
    name="cortado::magnitude",
    summary="square root of the sum of two squares, element by element",
    arguments=(
        "Tensor input, int input_zero_point, int input_multiplier, Tensor other, int other_zero_point, "
        "int other_multiplier, int start, int start_shift, int output_zero_point, int output_multiplier, "
        "int output_shift"
    ),
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=kernel,
    rows=lambda call: _binary.ELEMENTS,
    tensors=("input", "other"),
    relayout=lambda arguments, perm: arguments,
    places=frozenset({Place.C}),
    constraints=(
        "equal shapes; other shapes are expanded first; C bundle only: the runtime has no integer operator for it, and "
        "squares in int8 would lose small magnitudes"
    ),
    samples=samples,
)

MAGNITUDE_PATTERN = Pattern(aten=(MAGNITUDE_IN_FLOAT,), match=match, lower=lower)
HYPOT_REWRITE = Rewrite(aten=(aten.hypot.default,), rewrite=hypot)
ROOT_REWRITE = Rewrite(aten=(aten.sqrt.default,), rewrite=root_of_squares)
ABS_REWRITE = Rewrite(aten=(aten.abs.default,), rewrite=of_complex)
