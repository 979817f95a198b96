"""out = a + b, a - b, a * b, a / b, min(a, b), max(a, b), atan2(a, b) or a^b, within bounds, in float32.

Operands have any shapes that broadcast, and one of them can be a number. The first six are one operation, rounded once;
minimum and maximum return NaN if either operand is NaN.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base import float32
from cortado.base.element import FLOAT32, INT32
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.ir.c_call import Absent, Operand, Row
from cortado.ir.graph import Bound, shape
from cortado.ir.kernel import ONE_ROW, Field, RowRule, Rows
from cortado.ir.kernel_table import KernelRow, KernelTable
from cortado.ir.op import Call, Lowering, Operator, Pattern
from cortado.ir.roles import Plain, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Calls, Quantities, Work
from cortado.ops.elementwise.binary import Form, form_of, padded, prepare
from cortado.ops.elementwise.compare import ACCEPTED, COMPARED
from cortado.ops.floats import ANGLE, COMPARISON, NO_BOUNDS, POWER, FloatArray, bounded, draw_bounds, quiet
from cortado.ops.integer.calculate import How
from cortado.ops.meaning import ABOVE, BELOW, EQUAL
from cortado.ops.move.movement import MAX_LOOPS, six, strides_of

aten = torch.ops.aten
_Shape = tuple[int, ...]
_Bounds = tuple[float, float]

# By target; the second operand can be a number.
HOW: dict[OpOverload, int] = {
    aten.add.Tensor: How.SUM,
    aten.sub.Tensor: How.DIFFERENCE,
    aten.rsub.Tensor: How.DIFFERENCE,
    aten.mul.Tensor: How.PRODUCT,
    aten.div.Tensor: How.QUOTIENT,
    aten.minimum.default: How.SMALLER,
    aten.maximum.default: How.LARGER,
    aten.atan2.default: ANGLE,
    aten.pow.Tensor_Tensor: POWER,
    aten.pow.Tensor_Scalar: POWER,
    aten.pow.Scalar: POWER,
    aten.add.Scalar: How.SUM,
    aten.sub.Scalar: How.DIFFERENCE,
    aten.rsub.Scalar: How.DIFFERENCE,
    aten.mul.Scalar: How.PRODUCT,
    aten.div.Scalar: How.QUOTIENT,
}
_REVERSED = (aten.rsub.Tensor, aten.rsub.Scalar)


def _compared(a: FloatArray, b: FloatArray, accepts: int) -> FloatArray:
    """Returns truth values as 0 and 1; NaN counts as not equal."""
    if accepts == BELOW | ABOVE:
        return (a != b).astype(np.float32)
    found = ((a < b) & bool(accepts & BELOW)) | ((a == b) & bool(accepts & EQUAL)) | ((a > b) & bool(accepts & ABOVE))
    return found.astype(np.float32)


_MADE: dict[int, Callable[[FloatArray, FloatArray], FloatArray]] = {
    How.SUM: np.add,
    How.DIFFERENCE: np.subtract,
    How.PRODUCT: np.multiply,
    How.QUOTIENT: np.divide,
    How.SMALLER: lambda a, b: np.where((b < a) | (b != b), b, a),
    How.LARGER: lambda a, b: np.where((b > a) | (b != b), b, a),
    ANGLE: float32.atan2,
    POWER: float32.pow,
}
_MADE |= {COMPARISON + accepts: partial(_compared, accepts=accepts) for accepts in ACCEPTED}
_ALONE = {ANGLE: "atan2", POWER: "pow"}  # each has its own C function


@quiet
def reference(
    *,
    self: list[Tensor],
    other: list[Tensor],
    number: float,
    how: int,
    activation_min: float,
    activation_max: float,
) -> Tensor:
    a, b = (side[0].numpy() if side else np.asarray(number, dtype=np.float32) for side in (self, other))
    made = _MADE[how](a, b)
    return bounded(made, activation_min, activation_max)


# ---- from aten -----------------------------------------------------------------------------------------------


def match(bound: Bound) -> Quantization | Reject:
    if len(_walk(bound)) > MAX_LOOPS:
        return Reject(f"broadcasts over more than {MAX_LOOPS} groups of dimensions")
    return Quantization({}, Plain())


def _walk(bound: Bound) -> list[tuple[int, int, int]]:
    first, second = (shape(one) if isinstance(one, Node) else () for one in (bound[name] for name in _names(bound)))
    return walk(first, second, shape(bound.node))


def walk(first: _Shape, second: _Shape, out: _Shape) -> list[tuple[int, int, int]]:
    """Returns the loops over the result, outermost first, as (count, stride of first, stride of second), merged where
    possible."""
    rank, strides = len(out), []
    for sizes in (padded(first, len(out)), padded(second, len(out))):
        steps = strides_of(sizes)
        strides.append([0 if sizes[dim] == 1 else steps[dim] for dim in range(rank)])
    found: list[tuple[int, int, int]] = []
    for size, a, b in zip(out, *strides, strict=True):
        if size == 1:
            continue
        if found and found[-1][1:] == (a * size, b * size):
            found[-1] = (found[-1][0] * size, a, b)
        else:
            found.append((size, a, b))
    return found or [(1, 0, 0)]


def calculate(
    lowering: Lowering, first: Node | float, second: Node | float, how: int, bounds: _Bounds = NO_BOUNDS
) -> Node:
    """Adds a call on two operands, one of which can be a number."""
    sides = [[one] if isinstance(one, Node) else [] for one in (first, second)]
    numbers = [float(one) for one in (first, second) if not isinstance(one, Node)]
    return lowering.call(
        FLOAT_CALCULATE,
        self=sides[0],
        other=sides[1],
        number=numbers[0] if numbers else 0.0,
        how=int(how),
        activation_min=bounds[0],
        activation_max=bounds[1],
    )


def _names(bound: Bound) -> tuple[str, str]:
    """Returns the names of a call's operands."""
    second = "exponent" if "exponent" in bound.values else "other"
    return "self", second


def _operand(lowering: Lowering, name: str) -> Node | float:
    """Returns a tensor, or a number (also for a constant that holds one); `alpha` multiplies the second operand of a
    sum."""
    value, alpha = lowering.bound[name], lowering.bound.get("alpha", 1) if name != "self" else 1
    data = lowering.data(name) if isinstance(value, Node) else None
    if data is not None and data.numel() == 1 and len(data.shape) <= len(shape(lowering.bound.node)):
        value = float(data)
    if not isinstance(value, Node):
        return float(value) * alpha
    return value if alpha == 1 else calculate(lowering, value, float(alpha), How.PRODUCT)


def lower(lowering: Lowering) -> Node:
    bound, out = lowering.bound, shape(lowering.bound.node)
    how = HOW[bound.node.target]  # type: ignore[index]
    first, second = _operand(lowering, _names(bound)[0]), _operand(lowering, _names(bound)[1])
    tensors = isinstance(first, Node) and isinstance(second, Node) and bound.get("alpha", 1) == 1
    if tensors and bound.node.target not in _REVERSED and _by_channel(bound):
        operands = prepare(lowering)
        sides = (operands.second, operands.first) if operands.swapped else (operands.first, operands.second)
        return operands.restore(calculate(lowering, *sides, how, lowering.clamp))
    if bound.node.target in _REVERSED:
        first, second = second, first
    if not isinstance(first, Node) and not isinstance(second, Node):
        first = lowering.constant("self", torch.tensor([first]))
    if how in _ALONE:
        first, second = (_as_result(lowering, one, out) for one in (first, second))
    return lowering.view(calculate(lowering, first, second, how, lowering.clamp), out)


def _as_result(lowering: Lowering, side: Node | float, out: _Shape) -> Node | float:
    """Expands an operand to the result's shape, unless it repeats with a period or is a single number."""
    if not isinstance(side, Node) or period(shape(side), out) is not None:
        return side
    return calculate(lowering, side, lowering.constant("ones", torch.ones(out)), How.PRODUCT)


def _by_channel(bound: Bound) -> bool:
    """Whether one operand has a number for each channel of an image."""
    forms = [form_of(shape(bound[name]), shape(bound.node)) for name in _names(bound)]
    return "exponent" not in bound.values and Form.EQUAL in forms and Form.CHANNEL in forms


# ---- the C kernel --------------------------------------------------------------------------------------------


def period(sizes: _Shape, out: _Shape) -> int | None:
    """Returns the number of elements after which an operand repeats within the result; None if it does not repeat."""
    if math.prod(sizes) == math.prod(out):
        return INT32.high
    aligned = padded(sizes, len(out))
    inner = [dim for dim, size in enumerate(aligned) if size != 1]
    return math.prod(sizes) if not inner or aligned[inner[0] :] == out[inner[0] :] else None


def _shape(call: Call, name: str) -> _Shape:
    return call.shapes(name)[0] if call[name] else ()


def output_shape(call: Call) -> _Shape:
    return tuple(torch.broadcast_shapes(_shape(call, "self"), _shape(call, "other")))


def periods(call: Call) -> tuple[int, int] | None:
    first, second = (period(_shape(call, name), output_shape(call)) for name in ("self", "other"))
    return None if first is None or second is None else (first, second)


def rows(call: Call) -> Rows | None:
    """Runs row by row if each operand lies as the result does, or is a pixel or a number for all."""
    found, out = periods(call), output_shape(call)
    row = math.prod(out[2:]) if len(out) == 4 else math.prod(out)
    if found is None or any(one != INT32.high and row % one for one in found):
        return None
    given = [one for one, name in zip(found, ("self", "other"), strict=True) if call[name]]
    rules = tuple(ONE_ROW if one == INT32.high else RowRule(stride=0) for one in given)
    return Rows(rules, pixelwise=True, elementwise=True)


def _fields(call: Call) -> dict[str, Field]:
    first, second = periods(call) or (0, 0)
    return {"a_period": first, "b_period": second}


def _strided_fields(call: Call) -> dict[str, Field]:
    turns = walk(_shape(call, "self"), _shape(call, "other"), output_shape(call))
    shapes, first, second = zip(*turns, strict=True)
    return {"rank": len(turns), "shape": six(shapes, 1), "a_stride": six(first, 0), "b_stride": six(second, 0)}


def _row(symbol: str, sides: tuple[str, ...]) -> KernelRow:
    """Returns a row for calls with these tensor operands; a missing one is a number."""
    a, b = (Row(sides.index(name)) if name in sides else Absent() for name in ("self", "other"))
    return KernelRow(
        f"{symbol}_f32",
        FLOAT32,
        fits=lambda call: (
            _ALONE.get(call["how"], "calculate") == symbol
            and sides == tuple(name for name in ("self", "other") if call[name])
            and rows(call) is not None
        ),
        arguments=(Operand.LAYER, a, b, Operand.OUT, Operand.N),
        struct="cortado_calculate_f32_t",
        fields=_fields,
        work=lambda call: _work(call),
    )


_SIDES = (("self", "other"), ("self",), ("other",))
KERNELS = KernelTable(
    (
        *(_row(symbol, sides) for symbol in ("calculate", *_ALONE.values()) for sides in _SIDES),
        KernelRow(
            "calculate_strided_f32",
            FLOAT32,
            arguments=(Operand.LAYER, Row(0), Row(1), Operand.OUT),
            struct="cortado_calculate_strided_t",
            fields=_strided_fields,
            work=lambda call: _work(call),
        ),
    )
)


_BASIC = (How.SUM, How.DIFFERENCE, How.PRODUCT)  # which have a loop each
_FOURS = " ".join(f"fours*{how}*{operand}" for how in ("summed", "multiplied") for operand in ("tensor", "scalar"))
_TERMS = (
    "calls calls*single pieces ragged loose*summed loose*multiplied numbers*divided numbers*chosen numbers*compared "
    f"numbers*angle numbers*power numbers*powers numbers*bounded {_FOURS}"
)


def _work(call: Call) -> Work:
    """Numbers by what is made of them; pieces over which an operand goes on from element to element. Of a basic
    operation without bounds, fours of numbers, the others, and pieces that end with such. What is subtracted from one
    number has no fours."""
    how, bounded = call["how"], (call["activation_min"], call["activation_max"]) != NO_BOUNDS
    longest, several = periods(call), math.prod(output_shape(call)) > 1
    reversed_one = how == How.DIFFERENCE and longest is not None and longest[0] == 1
    by_fours = how in _BASIC and several and not bounded and not reversed_one
    sizes = {
        "summed": how in (How.SUM, How.DIFFERENCE),
        "multiplied": how == How.PRODUCT,
        "divided": how == How.QUOTIENT,
        "chosen": how in (How.SMALLER, How.LARGER),
        "compared": how >= COMPARISON and how not in _ALONE,
        "angle": how == ANGLE,
        "power": how == POWER and longest is not None and longest[1] == 1,
        "powers": how == POWER and (longest is None or longest[1] != 1),
        "bounded": bounded,
        "scalar": longest is not None and 1 in longest,
        "tensor": longest is None or 1 not in longest,
        "single": not several,
    }

    def quantities(calls: Calls) -> Quantities:
        numbers = calls.outputs / FLOAT32.bytes
        length = max(1.0, min([numbers / max(calls.calls, 1), *(one for one in longest or () if one > 1)]))
        pieces = numbers / length
        fours = pieces * (length // 4) * by_fours
        ragged = pieces * (length % 4 > 0) * by_fours
        return {**sizes, "numbers": numbers, "pieces": pieces, "ragged": ragged, "fours": fours,
                "loose": numbers - 4 * fours}  # fmt: skip

    return Work(tuple(_TERMS.split()), quantities)


def relayout(arguments: Any, perm: Sequence[int]) -> Any:
    """Returns the arguments unchanged if both operands have the same shape: dimensions can then be in any order."""
    alike = {shape(one) for name in ("self", "other") for one in arguments[name]}
    return arguments if len(alike) == 1 else None


def samples(draw: CaseDraw) -> dict[str, Any]:
    sizes = draw.rows()
    kinds = [draw.pick(["equal", "equal", "one", "last", "any"]) for _ in range(2)]
    shapes = [_drawn(draw, sizes, kind) for kind in kinds]
    given = draw.pick([("self", "other"), ("self", "other"), ("self",), ("other",)])
    drawn = {name: [draw.numbers(one)] for name, one in zip(("self", "other"), shapes, strict=True)}
    how = int(draw.pick(sorted(_MADE)))
    if how in _ALONE:
        drawn["other"] = [draw.numbers(sizes)]
        drawn["self"] = [draw.numbers(sizes)]
    if how >= COMPARISON and draw.flag():
        drawn["other"] = [drawn["self"][0].flip(-1)]  # equal numbers among them
    return {
        **{name: drawn[name] if name in given else [] for name in drawn},
        "number": float(np.float32(draw.pick([0.0, 1.5, -0.1, 3e9]))),
        "how": how,
        **draw_bounds(draw),
    }


def _drawn(draw: CaseDraw, sizes: _Shape, kind: str) -> _Shape:
    if kind == "any":
        return tuple(size if draw.flag() else 1 for size in sizes)
    return {"equal": sizes, "one": (1,), "last": sizes[-1:]}[kind]


def is_identity(call: Call) -> bool:
    """Whether it is a tensor times 1, without bounds."""
    bounds = (call["activation_min"], call["activation_max"])
    return not call["other"] and call["how"] == How.PRODUCT and call["number"] == 1.0 and bounds == NO_BOUNDS


FLOAT_CALCULATE = Operator(
    name="cortado::float_calculate",
    summary="sums, products, quotients, minimum, maximum, atan2, powers and comparisons of two float32 tensors",
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    element=FLOAT32,
    rows=rows,
    tensors=("self", "other"),
    relayout=relayout,
    identity=is_identity,
    constraints="shapes that torch broadcasts, in at most 6 loops",
    samples=samples,
)


def lower_compared(lowering: Lowering) -> Node:
    bound = lowering.bound
    first, second = (_operand(lowering, name) for name in ("self", "other"))
    made = calculate(lowering, first, second, COMPARISON + int(bound["accepts"]))
    return lowering.view(made, shape(bound.node))


FLOAT_COMPARED_PATTERN = Pattern(aten=(COMPARED,), match=match, lower=lower_compared, floating=True)
FLOAT_CALCULATE_PATTERN = Pattern(aten=tuple(HOW), match=match, lower=lower, fuses_clamp=True, floating=True)
